#!/usr/bin/env bash
# cdk.sh PORT ARGS… runs infra/cdk.sh against the LocalStack on that port, with functions built for this machine and a table that goes with
# its stack:
#
#	localstack/cdk.sh 4566 bootstrap aws://000000000000/us-east-1
#	localstack/cdk.sh 4566 deploy Nodelease -c size=8
#
# FUNCTIONS names a directory with the functions' zips; without it they are built. CDK_APP names a directory that was synthesized before, which
# saves doing it again.
set -euo pipefail
cd "$(dirname "$0")/.."
port=$1
shift
arch=$(go env GOHOSTARCH)
if [ -z "${FUNCTIONS:-}${CDK_APP:-}" ]; then
  FUNCTIONS=.cache/localstack/functions
  GOARCH=$arch OUT=$FUNCTIONS scripts/build-functions.sh >&2
fi
export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
unset AWS_PROFILE AWS_SESSION_TOKEN
exec infra/cdk.sh ${CDK_APP:+--app "$CDK_APP"} --output .cache/localstack/cdk.out --no-notices --no-color --progress bar \
  -c arch="$arch" -c functions="${FUNCTIONS:-}" -c throwaway=true "$@"
