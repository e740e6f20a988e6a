#!/usr/bin/env bash
# test.sh [STEP…] runs what needs AWS on an emulator of its own (run.sh), which it stops when it ends or is interrupted:
#
#	stack   deploys the stack as the page README.md says, runs localstack/e2e on it, takes it away
#	page    runs every shell block of docs/deploy.md as it is printed, with the AWS CLI alone where the page has no CDK
#
# Both without a STEP. It installs what it needs into .cache.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${NODELEASE_LOCALSTACK_PORT:-}" ]; then
  exec localstack/run.sh localstack/test.sh "$@"
fi
logs=$PWD/.cache/localstack/logs
step() { echo "localstack-test: ${SECONDS}s: $*" >&2; }
quietly() {
  local log=$logs/$1.log
  shift
  "$@" >"$log" 2>&1 && return
  echo "localstack-test: $* failed; the end of its log:" >&2
  tail -40 "$log" >&2
  exit 1
}
# block prints the shell blocks below a heading of the page.
block() { sed -n "/^## $1\$/,/^## /p" localstack/README.md | sed -n '/^```sh$/,/^```$/{/^```/!p}'; }

stack() {
  export FUNCTIONS=${FUNCTIONS:-$PWD/.cache/localstack/functions}
  step "building the functions for this machine"
  quietly functions env GOARCH="$(go env GOHOSTARCH)" OUT="$FUNCTIONS" scripts/build-functions.sh
  step "deploying"
  quietly deploy bash -euxo pipefail -c "$(block 'Deploy to it')"
  step "a fleet on the deployed table"
  (cd localstack/e2e && go test -count=1 -timeout 20m -v -run TestStack .)
  step "destroying"
  quietly destroy bash -euxo pipefail -c "$(block 'Take it away')"
}
page() {
  step "the page docs/deploy.md"
  (cd localstack/e2e && go test -count=1 -timeout 20m -v -run "TestDeployPage|TestTerraformExample" .)
}
[ $# -gt 0 ] || set -- stack page
for s; do
  case $s in
  stack | page) "$s" ;;
  *) echo "no step '$s'; there are: stack, page" >&2; exit 2 ;;
  esac
done
step "done"
