#!/usr/bin/env bash
# Proves that the functions' zips are reproducible: builds them twice, in two directories of different names and lengths, each with a
# build cache of its own, and compares the bytes. Takes some minutes: everything is compiled twice.
#
#   scripts/build-functions-check.sh          # GOARCH as for scripts/build-functions.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for place in one a/rather/longer/path/two; do
    tree=$work/$place
    mkdir -p "$tree"
    git ls-files -z --cached --others --exclude-standard -- go.mod go.sum pkg functions internal scripts |
        xargs -0 tar --ignore-failed-read -cf - 2>/dev/null | tar -xf - -C "$tree"
    touch -d "@$RANDOM" "$tree/go.mod" # the times of files must not matter
    GOCACHE=$work/cache-$(basename "$place") OUT=$tree/zips "$tree/scripts/build-functions.sh"
done

for name in bootstrap reaper poolmetric; do
    cmp "$work/one/zips/$name.zip" "$work/a/rather/longer/path/two/zips/$name.zip"
done
echo 'both builds are identical'
