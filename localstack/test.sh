#!/usr/bin/env bash
# test.sh deploys the real stack to a LocalStack of its own, without Docker, and runs localstack/e2e on it. It installs what it needs into
# .cache (install.sh), takes a free port, and stops everything that it has started when it ends or is interrupted. About four minutes once installed.
# STACK=short leaves out that the pool grows. FUNCTIONS names a directory with zips for this machine's architecture; without it they are built.
set -euo pipefail
cd "$(dirname "$0")/.."
logs=$PWD/.cache/localstack/logs
mkdir -p "$logs"
step() { echo "localstack-test: ${SECONDS}s: $*" >&2; }

localstack/install.sh
port=$(.cache/localstack/venv/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

localstack/start.sh "$port" >"$logs/localstack.log" 2>&1 &
server=$!
# start.sh ends LocalStack and what that has started; a second signal would only interrupt it at that.
trap 'kill -TERM "$server" 2>/dev/null; wait "$server" 2>/dev/null || true' EXIT

fail() {
  echo "localstack-test: $1 failed; the end of its log:" >&2
  tail -40 "$2" >&2
  exit 1
}
quietly() {
  local log=$logs/$1.log
  shift
  "$@" >"$log" 2>&1 || fail "$*" "$log"
}

if [ -z "${FUNCTIONS:-}" ]; then
  step "building the functions for this machine"
  export FUNCTIONS=$PWD/.cache/localstack/functions
  quietly functions env GOARCH="$(go env GOHOSTARCH)" OUT="$FUNCTIONS" scripts/build-functions.sh
fi
step "cdk synth"
app=.cache/localstack/assembly
quietly synth localstack/cdk.sh "$port" synth --quiet -c size=6
rm -rf "$app" && mv .cache/localstack/cdk.out "$app"

step "waiting for LocalStack on 127.0.0.1:$port"
until grep -q '^Ready\.' "$logs/localstack.log"; do
  kill -0 "$server" 2>/dev/null && [ "$SECONDS" -lt 300 ] || fail "LocalStack" "$logs/localstack.log"
  sleep 0.2
done

step "cdk bootstrap"
quietly bootstrap env CDK_APP="$app" localstack/cdk.sh "$port" bootstrap aws://000000000000/us-east-1
step "cdk deploy"
quietly deploy env CDK_APP="$app" localstack/cdk.sh "$port" deploy Nodelease --require-approval never

step "a fleet on the deployed table"
(cd localstack/e2e && NODELEASE_LOCALSTACK_PORT=$port go test ${STACK:+"-$STACK"} -count=1 -timeout 9m -v .)

step "cdk destroy"
quietly destroy env CDK_APP="$app" localstack/cdk.sh "$port" destroy Nodelease --force
step "done"
