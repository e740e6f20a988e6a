#!/usr/bin/env bash
# Runs gofmt, go vet, golangci-lint, Vale and actionlint, at pinned versions that are built once
# into .cache/bin, and checks the subjects of commits.
set -euo pipefail
cd "$(dirname "$0")/.."

GOLANGCI=v2.15.0
VALE=v3.22.0
ACTIONLINT=v1.7.12

unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not gofmt'ed (run make fmt): $unformatted" >&2
	exit 1
fi

# The subject of each commit since the one that introduced the rule must be "package: imperative", of at most 72 characters.
if git cat-file -e 44edc7f^{commit} 2>/dev/null; then
	subjects=$(git log --no-merges --format='%h %s' 44edc7f..HEAD | grep -vE '^[0-9a-f]+ [a-z0-9./{}, _-]+: .{3,}$' || true)
	long=$(git log --format='%h %s' 44edc7f..HEAD | awk '{ n = length($0) - length($1) - 1; if (n > 72) print }')
	if [ -n "$subjects$long" ]; then
		printf 'commit subjects are "package: imperative", at most 72 characters; these are not:\n%s\n%s\n' "$subjects" "$long" >&2
		exit 1
	fi
fi

config=$PWD/.golangci.yaml
bin=$PWD/.cache/bin
vale=$bin/vale-$VALE
if [ ! -x "$vale" ]; then
	GOBIN=$bin go install "github.com/vale-cli/vale/v3/cmd/vale@$VALE"
	mv "$bin/vale" "$vale"
fi
git ls-files -z '*.go' '*.md' '*.js' '*.mjs' '*.ts' '*.py' '*.java' ':!CHANGELOG.md' ':!*/vendor/*' | xargs -0 "$vale" --output=line
actionlint=$bin/actionlint-$ACTIONLINT
if [ ! -x "$actionlint" ]; then
	GOBIN=$bin go install "github.com/rhysd/actionlint/cmd/actionlint@$ACTIONLINT"
	mv "$bin/actionlint" "$actionlint"
fi
"$actionlint" -shellcheck= -pyflakes= .github/workflows/*.yaml
lint=$bin/golangci-lint-$GOLANGCI
if [ ! -x "$lint" ]; then
	GOBIN=$bin go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$GOLANGCI"
	mv "$bin/golangci-lint" "$lint"
fi
for module in . bench bench/lease proof/faults proof/awsverify localstack/e2e release; do
	if [ -f "$module/go.mod" ]; then
		(cd "$module" && go vet ./... && "$lint" run --allow-parallel-runners --config "$config" ./...)
	fi
done
