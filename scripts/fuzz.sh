#!/usr/bin/env bash
# fuzz.sh [package ...]   Runs every fuzz target, each for FUZZTIME (10s). Findings are written
# to testdata/fuzz, and are tests from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(grep -rl --include='*_test.go' '^func Fuzz' pkg internal functions cmd | xargs -n1 dirname | sort -u | sed 's|^|./|')
for package in "$@"; do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz'); do
		echo "== $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$package"
	done
done
