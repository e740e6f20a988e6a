#!/usr/bin/env bash
# suites.sh SUITE CHECKOUT   Fails if a test of a foreign suite (nubo, alternator or dynalite) has no verdict for the
# embedded DynamoDB in internal/embeddeddb/conform/suites.txt, and lists all such tests in the format of that file.
set -euo pipefail
list=$(cd "$(dirname "$0")/.." && pwd)/internal/embeddeddb/conform/suites.txt
[ $# = 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
title="\(\s*(['\"\`])\K(?:\\\\.|(?!\1).)*" # the rest of a test's name, in any quotes
case $1 in
nubo) files='tests/**/*.test.ts' test="^\s*(?:it|test)(?:\.\w+)?$title" ;;
alternator) files='test/alternator/test_*.py' test='^(async )?def \Ktest\w*' ;;
dynalite) files='test/*.js' test="\bit$title" ;;
*) echo "suites: no suite '$1': use nubo, alternator or dynalite" >&2; exit 2 ;;
esac
cd "$2"
shopt -s globstar nullglob
names=$(for file in $files; do { grep -oP "$test" "$file" || true; } | sed "s|^|$1\t$file\t|"; done | LC_ALL=C sort -u)
[ -n "$names" ] || { echo "suites: $2 is not a checkout of $1" >&2; exit 1; }
judged=$(awk -F'\t' '$4 ~ /^(right|refused by name|wrong on purpose|not about it): ./ { print $1 "\t" $2 "\t" $3 }' "$list" | LC_ALL=C sort -u)
unjudged=$(LC_ALL=C comm -23 <(echo "$names") <(echo "$judged"))
[ -z "$unjudged" ] || { printf '%s\n' "$unjudged"; echo "suites: the tests above have no verdict in $list" >&2; exit 1; }
