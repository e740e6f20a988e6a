#!/usr/bin/env bash
# Installs what the tests need, into .cache, and runs them. Needs Go, a JDK 17, Maven, Python 3.11 and npm, and for the proofs Rust: scripts/tools.sh
# says what is missing. Downloads run while earlier steps run, and what mostly waits runs beside the others.
#
#   scripts/test.sh              # the tests
#   scripts/test.sh proof        # what takes longer and changes less: CI runs it too
#   scripts/test.sh suite race   # two of the steps
#   scripts/test.sh kills        # make aws-verify on LocalStack, killed at each step: no part of the others
#
# STEP_TIMES names a file to which the length of each step is added; with STEP_BUDGETS=1 a step above its budget (scripts/budgets.txt) fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What would otherwise be skipped for want of an emulator fails.
export NODELEASE_REQUIRE_EMULATORS=1
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20

# The tests: all of the Go code with real emulators, the README's first command by
# the letter, real processes with real faults, the functions, the
# page in a browser, the deployed stack. The lint vets, so these two steps do not: with
# empty caches vet reads all that we import, once for each package and beside the compiler.
readme() { sh -ec "$(sed -n '/^```sh$/,/^```$/{//!p}; /^```$/q' README.md)"; }
suite() { scripts/postgres.sh && scripts/rie.sh >/dev/null && infra/lint/install.sh && scripts/dynamodb-local.sh run -- go test -vet=off -timeout 20m ./...; }
faults() { # modules of their own; the benchmarks' tests too
	scripts/postgres.sh
	for module in proof/faults bench; do (cd "$module" && go test -vet=off -count=1 -timeout 20m ./...); done
}
functions() { scripts/build-functions.sh; }
ui() { cmd/nodelease/internal/ui/e2e/test.sh; }
localstack() { ${beside:+exec} localstack/test.sh stack; } # one deployment: seed, claim, exhaust, reap, destroy
tests=(readme suite faults functions ui localstack)

# This step mostly waits for schedules and alarms, so it runs beside the others where there are others. It shows what it printed when they have
# ended, or as soon as it fails. Its function becomes its command (exec), so that it gets the signal that ends it.
waiting=localstack

# The proofs. The embedded server beside DynamoDB Local, beside dynoxide (Rust), and
# under as many connections as a hostile machine may open; 1,024 agents in a process;
# the specification, sixteen configurations of 10 to 30 s each, on a slow machine as
# far as that goes; ten million steps of the model, and sixty hours of real
# agents; the same bytes of the functions from two directories with empty caches;
# other platforms; what a release has.
race() { scripts/postgres.sh && scripts/dynamodb-local.sh run -- go test -race -timeout 30m ./pkg/... ./internal/... ./functions/...; }
differential() {
	local dynoxide
	dynoxide=$(scripts/dynoxide.sh) # first, since it says what is missing
	scripts/dynamodb-local.sh run -- go test -count=1 -timeout 20m -run 'TestDifferential$' ./internal/embeddeddb/conform -args -operations 20000
	NODELEASE_DYNOXIDE=$dynoxide go test -count=1 -timeout 20m -run 'TestThirdOpinion$' ./internal/embeddeddb/conform -args -operations 20000
	go test -count=1 -run 'TestManyConnections$' -v ./internal/embeddeddb -args -crowd
}
hostile() { # all of what a hostile writer or endpoint may say, in each command: the suite tries a quarter
	NODELEASE_TESTER=hostile go test -count=1 -timeout 20m -run 'TestHostileHolders|TestHostileEndpoint|TestEveryAttribute|TestLargestItems|TestWhatOneItemCostsAReader' ./cmd/nodelease
}
heavy() { go test -count=1 -race -timeout 20m -run 'TestManyAgents' ./proof/internal/sim; }
spec() { TLC_SECONDS=40 scripts/tlc.sh; }
sim() {
	go test -count=1 -timeout 30m -run 'TestModel$' ./internal/tenure -args -seeds 500 -steps 20000
	go test -count=1 -timeout 40m -run 'TestWorld$' ./proof/internal/sim -args -hours 2 -until 60
}
reproducible() { scripts/build-functions-check.sh; }
platforms() {
	GOARCH=386 go test -short ./pkg/snowflake/...
	for os in windows darwin; do GOOS=$os go vet ./pkg/... && GOOS=$os go build -o /dev/null ./cmd/...; done
}
deployed() { # the stack's changes, a function that makes IDs, and every block of the page Deploy, each on an emulator of its own
	localstack/test.sh changes
	localstack/test.sh lambda
	localstack/test.sh page
}
awsverify() { localstack/test.sh verify; } # the first run on AWS, on LocalStack: what that cannot show is the committed list
kills() { localstack/test.sh kills; } # that run, killed at each step
release() { # and each way of installing, as a stranger
	scripts/release.sh snapshot
	(cd release && go test -count=1 -timeout 15m ./... -args -dist "$PWD/../dist")
	go test -count=1 -timeout 15m -run 'TestConsumers|TestGoInstall' ./internal/docs -args -strangers
}
clients() { clients/test.sh; } # in Java, Python and JavaScript, as packages and on the real sidecar
proofs=(race differential hostile heavy spec sim reproducible platforms clients deployed awsverify release)

# What takes too long for each run of CI: by its name only.
long=(kills)

# What steps download. Each is done once; where another step has done it, it takes no time.
fetch_suite() { scripts/postgres.sh; scripts/rie.sh >/dev/null; infra/lint/install.sh; scripts/dynamodb-local.sh run -- true; }
fetch_faults() { scripts/postgres.sh; }
fetch_ui() { scripts/chromium.sh >/dev/null && scripts/npm.sh; }
fetch_localstack() { localstack/install.sh && scripts/npm.sh; } # each before its step, so that two never install at once
fetch_race() { scripts/postgres.sh; scripts/dynamodb-local.sh run -- true; }
fetch_differential() { scripts/dynoxide.sh >/dev/null; scripts/dynamodb-local.sh run -- true; }
fetch_release() { scripts/release.sh tools; }
fetch_deployed() { localstack/install.sh; }
fetch_awsverify() { localstack/install.sh; }
fetch_kills() { localstack/install.sh; }
fetching=(suite faults ui localstack race differential deployed awsverify kills release)

case "$*" in
"") steps=("${tests[@]}") ;;
proof) steps=("${proofs[@]}") ;;
*) steps=("$@") ;;
esac

for step in "${steps[@]}"; do
	case " ${tests[*]} ${proofs[*]} ${long[*]} " in
	*" $step "*) ;;
	*) echo "no step '$step'; there are: ${tests[*]}, of the proofs: ${proofs[*]}, and by its name only: ${long[*]}" >&2; exit 2 ;;
	esac
done

node=$(scripts/tools.sh "${steps[@]}")
[ -z "$node" ] || export PATH=$node:$PATH
. scripts/step.sh

# The downloads, one after the other, while steps run. A step waits for its own.
work=$(mktemp -d)
fetches() {
	trap - EXIT
	for step in "${steps[@]}"; do
		case " ${fetching[*]} " in *" $step "*)
			(set -e; "fetch_$step") >"$work/$step.log" 2>&1 </dev/null &
			if wait $!; then touch "$work/$step.done"; else touch "$work/$step.failed"; fi ;;
		esac
	done
}
fetches &
fetcher=$!
fetched() {
	case " ${fetching[*]} " in *" $1 "*) ;; *) return 0 ;; esac
	[ -e "$work/$1.done" ] || [ -e "$work/$1.failed" ] || echo "   waiting for downloads: $work/$1.log" >&2
	until [ -e "$work/$1.done" ]; do
		if [ -e "$work/$1.failed" ] || ! kill -0 "$fetcher" 2>/dev/null; then
			[ ! -e "$work/$1.done" ] || return 0 # the last one, done in between
			cat "$work/$1.log" >&2
			return 1
		fi
		sleep 0.2
	done
}

# enter STEP waits for its downloads; leave STEP SECONDS BEFORE says how long it took.
enter() {
	fetched "$1"
	began=$SECONDS
	busy
	before=$BUSY
}
leave() {
	echo "$2 s  $1" | tee -a "$work/times" >>"${STEP_TIMES:-/dev/null}"
	echo "== $1 passed in $2 s"
	busy
	judge "$1" "$2" "$3" "$BUSY"
}

# start STEP runs it beside the others, in a process group of its own, which halt ends.
start() {
	beside=$1 alone=$1
	busy
	beside_before=$BUSY
	set -m
	(
		trap - EXIT
		child=
		trap '[ -z "$child" ] || kill -TERM "$child" 2>/dev/null; wait; exit 143' TERM
		fetched "$1"
		date +%s >"$work/began"
		("$1") &
		child=$!
		code=0
		wait "$child" || code=$?
		date +%s >"$work/ended"
		exit "$code"
	) >"$work/beside.log" 2>&1 </dev/null &
	beside_pid=$!
	set +m
}
# finish waits for that step, and shows what it said.
finish() {
	[ -n "$beside" ] || return 0
	local code=0
	step=$beside
	echo "== $step ($((done += 1)) of ${#steps[@]}, beside the others, ${SECONDS} s so far)"
	wait "$beside_pid" || code=$?
	beside=
	cat "$work/beside.log"
	[ "$code" = 0 ] || return "$code"
	leave "$step" $(($(cat "$work/ended") - $(cat "$work/began"))) "$beside_before"
}
# failed ends this script when that step has failed: not in the midst of another.
failed() { [ -z "$beside" ] || kill -0 "$beside_pid" 2>/dev/null || finish; }
# halt ends it, and then what it has left behind of its group.
halt() {
	[ -n "$beside" ] || return 0
	kill -TERM "$beside_pid" 2>/dev/null || true
	wait "$beside_pid" 2>/dev/null || true
	kill -TERM -- "-$beside_pid" 2>/dev/null || true
}

# A step ends at its first command that fails, and so does this script: not under
# an if or ||, where bash would go on with the step's next command.
beside='' alone=''
trap 'code=$?; halt; kill "$fetcher" 2>/dev/null || true; rm -rf "$work"; [ $code = 0 ] || echo "== $step FAILED" >&2' EXIT
done=0
case " ${steps[*]} " in *" $waiting "*) [ ${#steps[@]} = 1 ] || start "$waiting" ;; esac
for step in "${steps[@]}"; do
	[ "$step" != "$alone" ] || continue
	echo "== $step ($((done += 1)) of ${#steps[@]}, ${SECONDS} s so far)"
	enter "$step"
	"$step"
	leave "$step" $((SECONDS - began)) "$before"
	failed
done
finish
echo "== all passed in $SECONDS s; the slowest steps:"
sort -rn "$work/times" | head -10
