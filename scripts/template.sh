#!/usr/bin/env bash
# template.sh DIR writes the files for a deployment without Go and CDK, which can be uploaded unchanged: one CloudFormation template, and the
# functions' zips for arm64 and x86_64.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/template.sh DIR}
GOARCH=arm64 OUT=$out/arm64 scripts/build-functions.sh
GOARCH=amd64 OUT=$out/x86_64 scripts/build-functions.sh
rm -rf "$out"/arm64/*/ "$out"/x86_64/*/ # remove the programs, which are in the zips
# Without this, jsii prints a banner on Node 20, which works but is past its end of life.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=${JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION:-20}
go run ./infra template "$out"
ls -l "$out"/nodelease.template.json "$out"/*/*.zip
