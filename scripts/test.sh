#!/usr/bin/env bash
# Installs what the tests need, into .cache, and runs all of them. Needs Go, a
# JDK 17, Maven, Python 3.11 and Node 20; says which one is missing. With names
# of steps as arguments it runs only those.
#
#   scripts/test.sh             # everything
#   scripts/test.sh unit race   # two of the steps
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What would otherwise be skipped for want of an emulator fails.
export NODELEASE_REQUIRE_EMULATORS=1
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20

need() { # need COMMAND WHAT PACKAGE
	command -v "$1" >/dev/null || { echo "the tests need $2 as '$1' (Debian: apt-get install $3)" >&2; exit 1; }
}
need go "Go 1.26" golang
need java "a JDK of version 17 or newer" openjdk-17-jdk-headless
need mvn Maven maven
need python3 "Python 3.11 with pip and venv" python3-venv
need node "Node 20" nodejs
need npm npm npm

# The steps, in the order in which they run: the fast ones first.
unit() { scripts/postgres.sh && scripts/rie.sh >/dev/null && infra/lint/install.sh && scripts/dynamodb-local.sh run -- go test ./...; }
race() { scripts/postgres.sh && scripts/dynamodb-local.sh run -- go test -race -short ./pkg/... ./internal/... ./functions/...; }
# 1,024 agents in one process, as -short leaves out.
heavy() { go test -count=1 -race -timeout 20m -run 'TestManyAgents' ./internal/sim; }
# Ten million steps of the model, and a thousand hours of real agents.
sim() {
	go test -count=1 -timeout 30m -run 'TestModel$' ./pkg/lease -args -seeds 500 -steps 20000
	go test -count=1 -timeout 40m -run 'TestWorld$' ./internal/sim -args -hours 6 -until 1000
}
# The embedded server beside DynamoDB Local.
differential() {
	scripts/dynamodb-local.sh run -- go test -count=1 -timeout 20m -run 'TestDifferential$' ./internal/embeddeddb/conform -args -operations 20000
}
# Real processes, real faults; and the benchmarks' own tests. Modules of their own.
faults() { (cd faults && go test -count=1 -timeout 20m ./...) && (cd bench && go test -count=1 ./...); }
spec() { TLC_SECONDS=40 scripts/tlc.sh; } # ten configurations, 10 to 30 s each; on a slow machine as far as that goes
platforms() {
	GOARCH=386 go test -short ./pkg/snowflake/...
	for os in windows darwin; do GOOS=$os go vet ./pkg/... && GOOS=$os go build -o /dev/null ./cmd/...; done
}
readme() { sh -ec "$(sed -n '/^```sh$/,/^```$/{//!p}; /^```$/q' README.md)"; } # its first command, by the letter
functions() { scripts/build-functions.sh && scripts/build-functions-check.sh; }
ui() { internal/ui/e2e/test.sh; }
localstack() { localstack/test.sh; }
steps=(readme unit race platforms differential faults heavy spec sim functions ui localstack)

times=()
for step in "${@:-${steps[@]}}"; do
	case " ${steps[*]} " in
	*" $step "*) ;;
	*) echo "no step '$step'; there are: ${steps[*]}" >&2; exit 2 ;;
	esac
	echo "== $step"
	began=$SECONDS
	"$step" || { echo "== $step FAILED after $((SECONDS - began)) s" >&2; exit 1; }
	times+=("$((SECONDS - began)) s  $step")
done
echo "== all passed in $SECONDS s; the slowest steps:"
printf '%s\n' "${times[@]}" | sort -rn | head -10
