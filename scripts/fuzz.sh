#!/usr/bin/env bash
# fuzz.sh [package ...]   Runs every fuzz target, each for FUZZTIME (10s). Findings are written
# to testdata/fuzz, and are tests from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(grep -rl --include='*_test.go' '^func Fuzz' pkg internal functions cmd | xargs -n1 dirname | sort -u | sed 's|^|./|')
for package in "$@"; do
	# This is a step of its own, since bash ignores an error in the head of a loop: a package that does not compile would look like one
	# without targets.
	listed=$(go test -list '^Fuzz' "$package")
	targets=$(grep '^Fuzz' <<<"$listed") || { echo "fuzz.sh: $package has no fuzz target" >&2; exit 1; }
	for target in $targets; do
		echo "== $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$package"
	done
done
