#!/usr/bin/env bash
# Invokes a built function once, under AWS's own Lambda runtime interface emulator, on this machine and without an account.
#
#   scripts/invoke.sh reaper events/reaper.json
#   scripts/invoke.sh bootstrap events/bootstrap-create.json
#
# The function uses an embedded DynamoDB that ends with the script or, if set, the table NODELEASE_TABLE at AWS_ENDPOINT_URL_DYNAMODB.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [ $# -ne 2 ] || ! [ -f "$root/functions/$1/main.go" ] || ! [ -f "$2" ]; then
    echo "usage: ${BASH_SOURCE[0]} bootstrap|reaper|poolmetric EVENT.json (examples are in events/)" >&2
    exit 2
fi
event=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$root"
scripts/rie.sh >/dev/null
out=$PWD/dist/invoke
GOARCH=$(go env GOHOSTARCH) OUT=$out scripts/build-functions.sh "$1" >&2
go run ./functions/internal/invoke "$1" "$out/$1/bootstrap" "$event"
