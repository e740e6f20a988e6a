#!/usr/bin/env bash
# Installs the tools of the tests into .cache, and runs the tests. Needs Go, a JDK 17, Maven, Python 3.11 and npm, and for the proofs Rust: scripts/tools.sh
# lists missing tools. Downloads run while earlier steps run, and steps that mostly wait run in parallel.
#
#   scripts/test.sh              # the tests, except those that have passed before with the same files
#   CI=true scripts/test.sh      # all tests
#   scripts/test.sh proof        # longer tests, which CI runs too
#   scripts/test.sh suite race   # two of the steps
#   scripts/test.sh kills        # make aws-verify on LocalStack, killed at each step: only run by name
#
# STEP_TIMES names a file to which the length of each step is appended. With STEP_BUDGETS=1, a step above its budget (scripts/budgets.txt) fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Makes tests fail that would otherwise be skipped without an emulator.
export NODELEASE_REQUIRE_EMULATORS=1
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20
# All builds have the flags that the functions and the image need, so that nothing is compiled twice.
GOFLAGS="$(go env GOFLAGS 2>/dev/null || true) -trimpath" CGO_ENABLED=0
export GOFLAGS CGO_ENABLED
# CI does not reuse results of earlier runs from Go's test cache.
again=${CI:+-count=1}

# The tests: all of the Go code with real emulators, the README's first command
# literally, real processes with real faults, the page in a browser, the deployed
# stack. Suite and faults do not vet, because the lint does, and because with empty
# caches vet reads all dependencies once for each package, in addition to the
# compiler. Slow packages come first. Three packages run at once, since some wait.
readme() {
	local commands
	commands=$(sed -n '/^```sh$/,/^```$/{//!p}; /^```$/q' README.md)
	[ -n "$commands" ] || { echo "README.md does not begin with a block of sh" >&2; return 1; }
	sh -ec "$commands"
}
suite() {
	scripts/postgres.sh && scripts/rie.sh >/dev/null
	scripts/dynamodb-local.sh run -- go test -vet=off -ldflags=-w $again -timeout 20m -p 3 -skip "^($slow|$elsewhere)\$" ./cmd/nodelease ./infra ./proof/internal/naps ./proof/internal/herds ./pkg/lease ./pkg/lease/leasepool ./functions/internal/rie ./internal/protocol ./proof/internal/sim ./...
	(cd release && go test -vet=off $again -run 'TestAPIChanges' .) # with the suite, because the step release comes too late for a forgotten make api
}
faults() { (cd proof/faults && go test -vet=off -ldflags=-w $again -timeout 20m -parallel 4 ./...); }
ui() { ONLY=page cmd/nodelease/internal/ui/e2e/test.sh; }
localstack() { localstack/test.sh stack; } # one deployment: seed, claim, exhaust, reap, destroy
tests=(readme suite localstack ui faults)

# make test skips these tests, which take long and none of which is the one that notices a mutant. The proof slow runs the first
# ones; race, differential, hostile, heavy and platforms run the others.
slow='TestAgentOnTheSynthesizedTable|TestAsManyPoolsAsThereMayBe|TestBootstrapInEveryOrder|TestColdStartOnDemand|TestDemoFindsDuplicates|TestDemoOutageByAge|TestExecOnDemandRenews|TestFunctionThatIsFrozen|TestHistoryReplays|TestLint|TestNoOutageIsReaped|TestOutageOfHours|TestOutageOfTheName|TestTooSmallAPool|TestWaitingIsCheap'
elsewhere='TestDifferential|TestHerdOnEmbedded|TestLoneTaskOnEmbedded|TestEveryAttribute|TestHostileEndpoint|TestHostileHolders|TestLargestItems|TestWhatOneItemCostsAReader|TestManyAgentsLeaveNothing|TestManyAgentsStayFlat|TestDockerfilesBuild'

# The files that these steps read. If they have not changed since the step passed, scripts/test.sh without a name skips the step.
# The other steps run Go tests, whose results Go caches itself.
reads_readme='README.md cmd pkg internal go.mod go.sum'
reads_ui='cmd pkg internal go.mod go.sum package-lock.json scripts'
reads_localstack='. :(glob,exclude)*.md :!docs :!bench :!clients :!proof :!release :!cmd'

# These steps, and localstack, mostly wait for schedules and alarms, a fleet or a browser. Each word is a lane: its steps run one after the other, in parallel with the
# other lanes and with the other steps. The lanes' output is shown when the other steps have ended, or as soon as a step of a lane fails. The step
# release comes after awsverify, because it rebuilds the template that awsverify deploys.
lanes='readme,ui faults deployed,awsverify,release'

# The proofs: the slow tests, among them the lint of the templates; all of the page in a browser; the benchmarks' tests, which are
# a module of their own; the embedded server compared with DynamoDB Local and with dynoxide
# (Rust), and with as many connections as a hostile machine could open; 1,024 agents in a process; the
# specification, in sixteen configurations of 10 to 30 s each, which a slow machine does not
# finish; ten million steps of the model, and sixty hours of real agents; identical functions
# from two directories with empty caches; other platforms; a release's files.
slow() { infra/lint/install.sh && scripts/dynamodb-local.sh run -- go test -count=1 -timeout 20m -run "^($slow)\$" ./cmd/nodelease ./infra ./functions/internal/rie ./pkg/lease/... ./proof/internal/...; }
pages() { cmd/nodelease/internal/ui/e2e/test.sh; }
benches() { scripts/postgres.sh && (cd bench && go test -vet=off $again -timeout 20m -parallel 4 ./...); }
race() { # leaves out the fleets of proof/internal, which run in one goroutine
	scripts/postgres.sh && CGO_ENABLED=1 scripts/dynamodb-local.sh run -- go test -race $again -timeout 30m ./pkg/... ./internal/... ./functions/...
	CGO_ENABLED=1 scripts/dynamodb-local.sh run -- go test -race $again -timeout 30m -skip 'Cost|CrashLoops|Churn|MassKills' ./proof/internal/{clocks,copies,growth,herds,naps,outages}
}
differential() {
	local dynoxide
	dynoxide=$(scripts/dynoxide.sh) # comes first because it reports missing tools
	scripts/dynamodb-local.sh run -- go test -count=1 -timeout 20m -run 'TestDifferential$' ./internal/embeddeddb/conform -args -operations 20000
	NODELEASE_DYNOXIDE=$dynoxide go test -count=1 -timeout 20m -run 'TestThirdOpinion$' ./internal/embeddeddb/conform -args -operations 20000
	go test -count=1 -run 'TestManyConnections$' -v ./internal/embeddeddb -args -crowd
}
hostile() { # tries all hostile values of writers and endpoints in each command, of which go test ./... tries a quarter
	NODELEASE_TESTER=hostile go test -count=1 -timeout 20m -run 'TestHostileHolders|TestHostileEndpoint|TestEveryAttribute|TestLargestItems|TestWhatOneItemCostsAReader' ./cmd/nodelease
}
heavy() { CGO_ENABLED=1 go test -count=1 -race -timeout 20m -run 'TestManyAgents' ./proof/internal/sim; }
spec() { TLC_SECONDS=40 scripts/tlc.sh; }
sim() {
	go test -count=1 -timeout 30m -run 'TestModel$' ./internal/tenure -args -seeds 500 -steps 20000
	go test -count=1 -timeout 40m -run 'TestWorld$' ./proof/internal/sim -args -hours 2 -until 60
}
reproducible() { scripts/build-functions-check.sh; }
platforms() {
	GOARCH=386 go test -short $again ./pkg/snowflake/... ./internal/tenure
	for os in windows darwin; do GOOS=$os go vet ./pkg/... && GOOS=$os go build -o /dev/null ./cmd/...; done
	# Builds the images' programs for both architectures; the suite builds them only for this machine's.
	for arch in amd64 arm64; do go test -count=1 -run 'TestDockerfilesBuild$' ./infra -args -arch "$arch"; done
}
deployed() { # tests changes of the stack, a function that makes IDs, and every block of the page Deploy, each on an emulator of its own
	localstack/test.sh changes
	localstack/test.sh lambda
	localstack/test.sh page
}
awsverify() { localstack/test.sh verify; } # runs make aws-verify on LocalStack; the checks that are not possible there must be those of the committed list
kills() { localstack/test.sh kills; } # kills such runs at each step
release() { # builds a release's files, tries each way of installing as an outsider would, and compares the exported API with the last release's
	scripts/release.sh snapshot
	(cd release && go test -count=1 -timeout 15m ./... -args -dist "$PWD/../dist")
	go test -count=1 -timeout 15m -run 'TestConsumers|TestGoInstall' ./internal/docs -args -strangers
}
clients() { clients/test.sh; } # tests the clients in Java, Python and JavaScript, as packages and with the real sidecar
proofs=(slow race benches differential hostile heavy spec sim reproducible platforms clients pages deployed awsverify release)

# These steps are too slow for each run of CI, so they run only by name.
long=(kills)

# The downloads of the steps. A download that another step has already made takes no time.
fetch_suite() { scripts/postgres.sh; scripts/rie.sh >/dev/null; scripts/dynamodb-local.sh run -- true; }
fetch_slow() { scripts/rie.sh >/dev/null; infra/lint/install.sh; scripts/dynamodb-local.sh run -- true; }
fetch_benches() { scripts/postgres.sh; }
fetch_ui() { scripts/chromium.sh >/dev/null && scripts/npm.sh; }
fetch_pages() { fetch_ui; }
fetch_localstack() { localstack/install.sh && scripts/npm.sh; }
fetch_race() { scripts/postgres.sh; scripts/dynamodb-local.sh run -- true; }
fetch_differential() { scripts/dynoxide.sh >/dev/null; scripts/dynamodb-local.sh run -- true; }
fetch_release() { scripts/release.sh tools; }
fetch_deployed() { localstack/install.sh; }
fetch_awsverify() { localstack/install.sh; }
fetch_kills() { localstack/install.sh; }
fetching=(suite ui localstack slow race pages benches differential deployed awsverify kills release)

# pass STEP sets PASS to a digest of the step's files and tools. A step that passes is remembered by that digest. PASS is empty for a
# step without a list of files, in CI, and outside git.
pass() {
	local reads="reads_$1"
	PASS=
	[ -z "${CI:-}" ] && [ -n "${!reads:-}" ] && git rev-parse HEAD >/dev/null 2>&1 || return 0
	PASS=$({ go version; node --version; uname -sm; git ls-files -z -co --exclude-standard -- ${!reads} | xargs -0 sha256sum; } 2>&1 | sha256sum | cut -d' ' -f1)
}

kept=
case "$*" in
"")
	steps=()
	for step in "${tests[@]}"; do
		pass "$step"
		if [ -n "$PASS" ] && [ "$(cat ".cache/passed/$step" 2>/dev/null)" = "$PASS" ]; then kept="$kept $step"; else steps+=("$step"); fi
	done
	;;
proof) steps=("${proofs[@]}") ;;
*) steps=("$@") ;;
esac

for step in "${steps[@]}"; do
	case " ${tests[*]} ${proofs[*]} ${long[*]} " in
	*" $step "*) ;;
	*) echo "no step '$step'; the steps are: ${tests[*]}, of the proofs: ${proofs[*]}, and only by name: ${long[*]}" >&2; exit 2 ;;
	esac
done

node=$(scripts/tools.sh "${steps[@]}")
[ -z "$node" ] || export PATH=$node:$PATH
. scripts/step.sh

# The downloads run while steps run, in two rows: npm and LocalStack, which are never installed twice at once, and the rest. A
# step waits for its own downloads. Each row is a process group, which ends with this script: the next run may begin at once, and two
# installations into one folder break each other.
work=$(mktemp -d)
fetches() {
	set +m
	trap - EXIT
	local row=$1 step
	shift
	for step; do
		case " ${fetching[*]} " in *" $step "*) ;; *) continue ;; esac
		case " localstack ui pages deployed awsverify kills " in *" $step "*) [ "$row" = npm ] || continue ;; *) [ "$row" = rest ] || continue ;; esac
		(set -e; "fetch_$step") >"$work/$step.log" 2>&1 </dev/null &
		if wait $!; then touch "$work/$step.done"; else touch "$work/$step.failed"; fi
	done
}
set -m
fetches rest "${steps[@]}" &
fetcher=$!
fetches npm "${steps[@]}" &
fetcher="$fetcher $!"
set +m
fetched() {
	case " ${fetching[*]} " in *" $1 "*) ;; *) return 0 ;; esac
	[ -e "$work/$1.done" ] || [ -e "$work/$1.failed" ] || echo "   waiting for downloads: $work/$1.log" >&2
	until [ -e "$work/$1.done" ]; do
		if [ -e "$work/$1.failed" ] || ! kill -0 $fetcher 2>/dev/null; then
			[ ! -e "$work/$1.done" ] || return 0 # the last download has just ended well
			cat "$work/$1.log" >&2
			return 1
		fi
		sleep 0.2
	done
}

# compile PACKAGE... compiles packages and their tests, without linking them. The go command does not know what another one compiles
# at the same time, so steps that start at the same time with empty caches would compile the same packages several times. Meanwhile the
# downloads run.
compile() { go list -export -deps -test "$@" >/dev/null; }

# enter STEP waits for the step's downloads; leave STEP SECONDS BEFORE prints how long the step took.
enter() {
	fetched "$1"
	began=$SECONDS
	busy
	before=$BUSY
	pass "$1"
}
leave() {
	echo "$2 s  $1" | tee -a "$work/times" >>"${STEP_TIMES:-/dev/null}"
	echo "== $1 passed in $2 s"
	busy
	judge "$1" "$2" "$3" "$BUSY"
}
# keep STEP PASS remembers that the step passed.
keep() { [ -z "$2" ] || { mkdir -p .cache/passed && echo "$2" >".cache/passed/$1"; }; }

# lane STEP... runs the steps one after the other, in parallel with all other steps, in a process group of their own that halt ends.
# It writes their output, times and exit codes to files.
beside='' pids=''
lane() {
	beside="$beside $*"
	set -m
	(
		set +m
		trap - EXIT
		child=
		# A step ends its own children, so only its command is signalled.
		trap 'pkill -TERM -P "$child"; wait; exit 143' TERM
		for step; do
			(
				trap - TERM
				fetched "$step"
				date +%s >"$work/$step.began"
				pass "$step"
				echo "$PASS" >"$work/$step.pass"
				"$step"
			) >"$work/$step.said" 2>&1 </dev/null &
			child=$!
			code=0
			wait "$child" || code=$?
			date +%s >"$work/$step.ended"
			echo "$code" >"$work/$step.code"
			[ "$code" = 0 ] || exit "$code"
		done
	) &
	pids="$pids $!"
	set +m
	for step; do echo $! >"$work/$step.lane"; done
}
# finish STEP waits for a step of a lane, and shows its output.
finish() {
	local code
	step=$1
	echo "== $step ($((done += 1)) of ${#steps[@]}, in parallel, ${SECONDS} s so far)"
	while [ ! -s "$work/$step.code" ] && kill -0 "$(cat "$work/$step.lane")" 2>/dev/null; do sleep 0.2; done
	code=$(cat "$work/$step.code" 2>/dev/null || echo 1)
	cat "$work/$step.said"
	[ "$code" = 0 ] || return "$code"
	keep "$step" "$(cat "$work/$step.pass")"
	leave "$step" $(($(cat "$work/$step.ended") - $(cat "$work/$step.began"))) "$beside_before"
}
# failed ends this script when a step of a lane has failed, but not during another step.
failed() {
	local other
	for other in $beside; do
		[ "$(cat "$work/$other.code" 2>/dev/null || echo 0)" = 0 ] || finish "$other"
	done
}
# halt ends the lanes, and then any remaining processes of their groups.
halt() {
	local pid
	for pid in $pids; do kill -TERM "$pid" 2>/dev/null || true; done
	for pid in $pids; do
		wait "$pid" 2>/dev/null || true
		kill -TERM -- "-$pid" 2>/dev/null || true
	done
}

# A step ends at its first command that fails, and so does this script. So steps are
# not called in an if or before ||, where bash would continue after a failure.
trap 'code=$?; halt; for row in $fetcher; do kill -TERM -- "-$row" 2>/dev/null || true; done; rm -rf "$work"; [ $code = 0 ] || echo "== $step FAILED" >&2' EXIT
done=0
busy
beside_before=$BUSY
# launch STEP,... starts a lane with those of its steps that are to run.
launch() {
	local some=
	for step in ${1//,/ }; do
		case " ${steps[*]} " in *" $step "*) some="$some $step" ;; esac
	done
	[ -z "$some" ] || lane $some
}
case " ${steps[*]} " in
*" suite "* | *" faults "* | *" race "*)
	step=compile
	# The longest step starts as soon as its programs are compiled.
	case " ${steps[*]} " in
	*" localstack "*)
		compile ./functions/... ./infra
		(cd localstack/e2e && compile ./...)
		launch localstack
		# Everything else waits for it. A run that is already nicer stays so.
		[ "$(nice)" -ge 5 ] || renice -n 5 $$ >/dev/null 2>&1 || true
		;;
	esac
	step=compile
	compile ./...
	(cd proof/faults && compile ./...)
	echo "== compiled in $SECONDS s"
	failed
	;;
esac
if [ ${#steps[@]} -gt 1 ]; then
	for together in $lanes; do launch "$together"; done
fi
[ -z "$kept" ] || echo "==$kept passed before with the same files (CI=true runs all)"
for step in "${steps[@]}"; do
	case "$beside " in *" $step "*) continue ;; esac
	echo "== $step ($((done += 1)) of ${#steps[@]}, ${SECONDS} s so far)"
	enter "$step"
	"$step"
	keep "$step" "$PASS"
	leave "$step" $((SECONDS - began)) "$before"
	failed
done
for step in $beside; do finish "$step"; done
echo "== all passed in $SECONDS s; the slowest steps:"
sort -rn "$work/times" | head -10
[ $# -gt 0 ] || { busy; STEP_BUDGETS= judge test "$SECONDS" "$beside_before" "$BUSY"; }
