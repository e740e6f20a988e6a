#!/usr/bin/env bash
# run.sh COMMAND… starts a new emulator of AWS on a free port of 127.0.0.1, runs the command with an environment that
# points to it, and stops the emulator when the command ends or is interrupted:
#
#	localstack/run.sh aws sts get-caller-identity
#
# Every test that needs AWS goes through this script. Another emulator is another script that takes a port, prints "Ready." and ends on
# SIGTERM: EMULATOR names it (default: localstack/start.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: localstack/run.sh COMMAND…" >&2; exit 2; }
logs=$PWD/.cache/localstack/logs
mkdir -p "$logs"

localstack/install.sh
port=$(.cache/localstack/venv/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
log=$logs/emulator-$port.log
"${EMULATOR:-localstack/start.sh}" "$port" >"$log" 2>&1 &
server=$!
# It ends its children; a second signal would only interrupt that.
command=
trap 'kill -TERM $command "$server" 2>/dev/null; wait 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
until grep -q '^Ready\.' "$log"; do
  if ! kill -0 "$server" 2>/dev/null || [ "$SECONDS" -gt 300 ]; then
    echo "localstack/run.sh: the emulator did not start; the end of its log:" >&2
    tail -40 "$log" >&2
    exit 1
  fi
  sleep 0.2
done

export NODELEASE_LOCALSTACK_PORT=$port NODELEASE_EMULATOR_LOG=$log PATH=$PWD/localstack/bin:$PATH
export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_PAGER=''
# The functions run on this machine. No one is there to approve.
export ARCH=${ARCH:-$(go env GOHOSTARCH)} CDK_REQUIRE_APPROVAL=never CDK_FORCE=true CDK_NOTICES=false
unset AWS_PROFILE AWS_SESSION_TOKEN
"$@" &
command=$!
status=0
wait "$command" || status=$?
command=
exit "$status"
