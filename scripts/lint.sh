#!/usr/bin/env bash
# gofmt, go vet and golangci-lint, at a pinned version that is built once into
# .cache/bin.
set -euo pipefail
cd "$(dirname "$0")/.."

GOLANGCI=v2.15.0

unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not gofmt'ed (run make fmt): $unformatted" >&2
	exit 1
fi

config=$PWD/.golangci.yaml
bin=$PWD/.cache/bin
lint=$bin/golangci-lint-$GOLANGCI
if [ ! -x "$lint" ]; then
	GOBIN=$bin go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$GOLANGCI"
	mv "$bin/golangci-lint" "$lint"
fi
for module in . bench bench/lease faults localstack/e2e; do
	if [ -f "$module/go.mod" ]; then
		(cd "$module" && go vet ./... && "$lint" run --allow-parallel-runners --config "$config" ./...)
	fi
done
