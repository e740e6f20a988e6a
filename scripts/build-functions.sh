#!/usr/bin/env bash
# Builds the three Lambda functions for provided.al2023: dist/functions/NAME.zip, with one file in each, `bootstrap`.
#
#   scripts/build-functions.sh                # for arm64, which the CDK construct deploys by default
#   GOARCH=amd64 scripts/build-functions.sh   # for x86_64, and for emulators on such a machine
#   OUT=DIR scripts/build-functions.sh reaper # into another directory, and only one of them
#   scripts/build-functions.sh examples/lambda # a function elsewhere: dist/functions/lambda.zip
#
# The same sources and the same Go release produce the same bytes wherever they are built, as scripts/build-functions-check.sh proves.
# So a deployment changes a function only if its code has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${OUT:-dist/functions}
arch=${GOARCH:-arm64}
limit=4000000

# Override settings of the machine that would change the bytes.
export GOOS=linux GOARCH=$arch CGO_ENABLED=0 GOFLAGS='' GOEXPERIMENT='' GOAMD64=v1 GOARM64=v8.0

[ $# -gt 0 ] || set -- bootstrap reaper poolmetric
for path; do
    name=${path##*/} most=
    [ "$name" != "$path" ] || path=functions/$name most=$limit # an example may be larger
    mkdir -p "$out/$name"
    go build -trimpath -buildvcs=false -tags lambda.norpc -ldflags '-s -w -buildid=' -o "$out/$name/bootstrap" "./$path"
    GOOS='' GOARCH='' go run scripts/build-functions.go "$out/$name.zip" "$out/$name/bootstrap"
    size=$(wc -c <"$out/$name.zip")
    if [ "$size" -gt "${most:-$size}" ]; then
        echo "$out/$name.zip has $size bytes, more than the $most allowed: look for a new dependency (go version -m $out/$name/bootstrap)" >&2
        exit 1
    fi
    printf '%s  %s  %s, %d bytes\n' "$(sha256sum <"$out/$name.zip" | cut -c1-16)" "$out/$name.zip" "$arch" "$size"
done
