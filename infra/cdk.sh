#!/usr/bin/env bash
# cdk.sh runs the pinned CDK command line (package-lock.json) from the root of the repository, and installs it first if it is missing:
#
#	infra/cdk.sh deploy -c size=256 Nodelease
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/npm.sh
# jsii prints a banner on Node 20, which is past its end of life and works.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=${JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION:-20}
cdk=$PWD/node_modules/.bin/cdk
# Preparing an account needs no app, and this one cannot be synthesized before the functions are built. In infra no cdk.json names it.
case " $* " in
*" --app "*) ;;
*" bootstrap "*) cd infra ;;
esac
exec "$cdk" "$@"
