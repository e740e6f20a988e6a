#!/usr/bin/env bash
# test.sh [STEP…] runs the tests that need AWS on a new emulator (run.sh), which it stops when it ends or is interrupted:
#
#	stack     deploys the stack as README.md describes, runs a fleet on it, removes it: one deployment, on an emulator whose minute has ten seconds
#	changes   deploys it and changes it: another pool, a rename, other sizes, a second stack
#	lambda    deploys examples/lambda and invokes its function a thousand times
#	page      runs every shell block of docs/deploy.md as it is printed, with only the AWS CLI where the page has no CDK
#	verify    runs proof/awsverify, on an emulator whose minute has ten seconds, kills it at three moments of its own and cleans up after it
#	kills     kills and interrupts proof/awsverify at each step, and cleans up after it: seven minutes, half an hour on a busy machine
#
# Without a STEP it runs stack. It installs its tools into .cache.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- stack
for s; do
  case $s in
  stack | changes | lambda | page | verify | kills) ;;
  *) echo "localstack/test.sh: no step '$s'; the steps are: stack, changes, lambda, page, verify, kills" >&2; exit 2 ;;
  esac
done
if [ -z "${NODELEASE_LOCALSTACK_PORT:-}" ]; then
  # These wait for schedules and alarms, the verification five minutes for the slowest: plugin/nodelease_localstack/minute.py.
  case $* in stack | verify | kills | "verify kills") export NODELEASE_LOCALSTACK_MINUTE=10 ;; esac
  exec localstack/run.sh localstack/test.sh "$@"
fi
logs=$PWD/.cache/localstack/logs
step() { echo "localstack-test: ${SECONDS}s: $*" >&2; }
quietly() {
  local log=$logs/$1-$NODELEASE_LOCALSTACK_PORT.log
  shift
  "$@" >"$log" 2>&1 && return
  echo "localstack-test: $* failed; the end of its log:" >&2
  tail -40 "$log" >&2
  exit 1
}
# block prints the shell block under a heading of the page.
block() { sed -n "/^## $1\$/,/^\`\`\`\$/p" localstack/README.md | sed -n '/^```sh$/,/^```$/{/^```/!p}'; }
run() {
  [ -n "$1" ] || { echo "localstack/README.md has no block of sh under this heading" >&2; return 1; }
  bash -euxo pipefail -c "$1"
}
build() {
  export FUNCTIONS=$PWD/.cache/localstack/functions
  step "building the functions for this machine"
  quietly functions env GOARCH="$(go env GOHOSTARCH)" OUT="$FUNCTIONS" scripts/build-functions.sh
}

stack() {
  build
  step "the emulator alone"
  quietly start run "$(block 'Start one')"
  step "cdk bootstrap, cdk deploy"
  quietly deploy run "$(block 'Deploy to it')"
  step "a fleet on the deployed table"
  (cd localstack/e2e && go test -vet=off -ldflags=-w -count=1 -timeout 15m -v -run TestStack .)
  step "cdk destroy"
  quietly destroy run "$(block 'Remove it')"
}
changes() {
  build
  step "cdk bootstrap, cdk deploy"
  quietly deploy run "$(block 'Deploy to it')"
  step "its changes"
  (cd localstack/e2e && go test -vet=off -ldflags=-w -count=1 -timeout 30m -v -run TestChanges .)
}
lambda() {
  build
  quietly functions env GOARCH="$(go env GOHOSTARCH)" OUT="$FUNCTIONS" scripts/build-functions.sh examples/lambda
  step "cdk bootstrap, cdk deploy of examples/lambda"
  quietly deploy run 'localstack/cdk.sh "$NODELEASE_LOCALSTACK_PORT" bootstrap aws://000000000000/us-east-1
localstack/cdk.sh "$NODELEASE_LOCALSTACK_PORT" --app "go run ./examples/lambda/stack" deploy NodeleaseLambda --require-approval never'
  step "invocations"
  (cd localstack/e2e && go test -vet=off -ldflags=-w -count=1 -timeout 15m -v -run TestLambda .)
}
page() {
  step "the page docs/deploy.md"
  (cd localstack/e2e && go test -vet=off -ldflags=-w -count=1 -timeout 30m -v -run 'TestDeployPage|TestLocalStackPage|TestTerraformExample' .)
}
verify() {
  step "the first run on AWS, on an emulator"
  scripts/template.sh dist/template
  (cd proof/awsverify && go test -count=1 -timeout 15m -v -skip 'TestDeletionGoesOn|TestInterrupted$' . -args -moments 3) # kills runs the others
}
kills() {
  step "proof/awsverify, killed at each step"
  scripts/template.sh dist/template
  (cd proof/awsverify && go test -count=1 -timeout 60m -v -run 'TestKilledAtEachStep|TestDeletionGoesOn|TestInterrupted' .)
}
for s; do
  "$s"
done
step "done"
