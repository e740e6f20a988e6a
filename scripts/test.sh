#!/usr/bin/env bash
# Installs what the tests need, into .cache, and runs them. Needs Go, a JDK 17,
# Maven, Python 3.11 and Node 20, and for the proofs Rust; says which one is missing.
#
#   scripts/test.sh              # the tests
#   scripts/test.sh proof        # what takes longer and changes less: CI runs it too
#   scripts/test.sh suite race   # two of the steps
#
# STEP_TIMES names a file to which the length of each step is added.
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

# The tests: all of the Go code with real emulators, the README's first command by
# the letter, other platforms, real processes with real faults, the functions, the
# page in a browser, the deployed stack.
readme() { sh -ec "$(sed -n '/^```sh$/,/^```$/{//!p}; /^```$/q' README.md)"; }
suite() { scripts/postgres.sh && scripts/rie.sh >/dev/null && infra/lint/install.sh && scripts/dynamodb-local.sh run -- go test -timeout 20m ./...; }
platforms() {
	GOARCH=386 go test -short ./pkg/snowflake/...
	for os in windows darwin; do GOOS=$os go vet ./pkg/... && GOOS=$os go build -o /dev/null ./cmd/...; done
}
faults() { # modules of their own; the benchmarks' tests too
	for module in proof/faults bench; do (cd "$module" && go test -count=1 -timeout 20m ./...); done
}
functions() { scripts/build-functions.sh; }
ui() { cmd/nodelease/internal/ui/e2e/test.sh; }
localstack() { localstack/test.sh stack; } # one deployment
tests=(readme suite platforms faults functions ui localstack)

# The proofs. The embedded server beside DynamoDB Local, beside dynoxide (Rust), and
# under as many connections as a hostile machine may open; 1,024 agents in a process;
# the specification, ten configurations of 10 to 30 s each, on a slow machine as
# far as that goes; ten million steps of the model, and sixty hours of real
# agents; the same bytes of the functions from two directories with empty caches.
race() { scripts/postgres.sh && scripts/dynamodb-local.sh run -- go test -race -timeout 30m ./pkg/... ./internal/... ./functions/...; }
differential() {
	local dynoxide
	dynoxide=$(scripts/dynoxide.sh) # first, since it says what is missing
	scripts/dynamodb-local.sh run -- go test -count=1 -timeout 20m -run 'TestDifferential$' ./internal/embeddeddb/conform -args -operations 20000
	NODELEASE_DYNOXIDE=$dynoxide go test -count=1 -timeout 20m -run 'TestThirdOpinion$' ./internal/embeddeddb/conform -args -operations 20000
	go test -count=1 -run 'TestManyConnections$' -v ./internal/embeddeddb -args -crowd
}
heavy() { go test -count=1 -race -timeout 20m -run 'TestManyAgents' ./proof/internal/sim; }
spec() { TLC_SECONDS=40 scripts/tlc.sh; }
sim() {
	go test -count=1 -timeout 30m -run 'TestModel$' ./internal/tenure -args -seeds 500 -steps 20000
	go test -count=1 -timeout 40m -run 'TestWorld$' ./proof/internal/sim -args -hours 2 -until 60
}
reproducible() { scripts/build-functions-check.sh; }
deployed() { localstack/test.sh changes page; } # the stack's changes, and every block of the page Deploy
awsverify() { localstack/test.sh verify; } # the first run on AWS, on LocalStack, and killed at each step
clients() { clients/test.sh; } # in Java, Python and JavaScript, as packages and on the real sidecar
proofs=(race differential heavy spec sim reproducible deployed awsverify clients)

case "$*" in
"") steps=("${tests[@]}") ;;
proof) steps=("${proofs[@]}") ;;
*) steps=("$@") ;;
esac

for step in "${steps[@]}"; do
	case " ${tests[*]} ${proofs[*]} " in
	*" $step "*) ;;
	*) echo "no step '$step'; there are: ${tests[*]}, and of the proofs: ${proofs[*]}" >&2; exit 2 ;;
	esac
done

times=$(mktemp)
# A step ends at its first command that fails, and so does this script: not under
# an if or ||, where bash would go on with the step's next command.
trap 'code=$?; rm -f "$times"; [ $code = 0 ] || echo "== $step FAILED" >&2' EXIT
for step in "${steps[@]}"; do
	echo "== $step"
	began=$SECONDS
	"$step"
	echo "$((SECONDS - began)) s  $step" | tee -a "$times" >>"${STEP_TIMES:-/dev/null}"
done
echo "== all passed in $SECONDS s; the slowest steps:"
sort -rn "$times" | head -10
