#!/usr/bin/env bash
# start.sh [PORT] runs LocalStack in the foreground on 127.0.0.1, without Docker, in a process group of its own; SIGINT or SIGTERM ends it
# and everything that it started. Prints "Ready." when it can be used. Default port 4566.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/install.sh"
cache=$(cd "$here/../.cache/localstack" && pwd)
port=${1:-4566}
state=$cache/state-$port
mkdir -p "$state/tmp"

# LocalStack ends about six seconds after SIGTERM. Processes that still run four seconds later (a function, the database) are ended with its group.
stop() {
  trap - INT TERM EXIT
  kill -TERM "$pid" 2>/dev/null || true
  for _ in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  rm -rf "$state"
}

set -m # a background job gets its own process group
env -u AWS_ENDPOINT_URL -u AWS_PROFILE \
  AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION="${AWS_DEFAULT_REGION:-us-east-1}" \
  PYTHONPATH="$here/plugin" PYTHONDONTWRITEBYTECODE=1 TMPDIR="$state/tmp" \
  FILESYSTEM_ROOT="$state/root" OVERRIDE_IN_DOCKER=0 GATEWAY_LISTEN="127.0.0.1:$port" LOCALSTACK_HOST="127.0.0.1:$port" \
  DNS_ADDRESS=0 SKIP_SSL_CERT_DOWNLOAD=1 DISABLE_EVENTS=1 ACTIVATE_PRO=0 \
  DYNAMODB_IN_MEMORY=1 PROVIDER_OVERRIDE_DYNAMODB=v2 PROVIDER_OVERRIDE_DYNAMODBSTREAMS=v2 \
  NODELEASE_DDB_JARS="$cache/jars" NODELEASE_DDB_LAUNCHER="$here/LoopbackDynamoDB.java" \
  LAMBDA_RUNTIME_EXECUTOR=process \
  "$cache/venv/bin/python" -m localstack.runtime.main </dev/null &
pid=$!
set +m
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
wait "$pid"
