#!/usr/bin/env bash
# spec-mutants.sh [name ...]   Weakens the specification one line at a time, and checks that TLC notices.
#
# Runs the mutants of proof/spec/mutants.txt, or only the named ones, and prints the table of proof/spec/README.md: the
# violated property, the steps, the seconds. Exits with 1 if a mutant survives that should not, if a result differs from the
# list, or if the list and the specification do not have the same mutants.
set -uo pipefail
cd "$(dirname "$0")/.."
list=proof/spec/mutants.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

in_list=$(awk '/^[a-z]/ && $1 != "none" {print $1}' $list | sort -u)
in_spec=$(grep -oh 'Weak("[^"]*")' proof/spec/*.tla | cut -d'"' -f2 | grep -vx x | sort -u)
if [ "$in_list" != "$in_spec" ]; then
	echo "spec-mutants.sh: $list and the Weak(...) of proof/spec/*.tla differ:" >&2
	diff <(echo "$in_list") <(echo "$in_spec") >&2
	exit 1
fi

for name; do
	grep -q "^$name[[:space:]]" $list || { echo "spec-mutants.sh: no mutant is named $name: see $list" >&2; exit 2; }
done

# check MUTANT CONFIG EXPECTED runs a mutant, and sets the variables result and steps.
check() {
	local kind=INVARIANTS cfg=$work/$(basename "$2").cfg
	case $3 in Rests | Grows | NeverResumes) kind=PROPERTIES ;; esac
	sed "s/Mutant = \"none\"/Mutant = \"$1\"/" "proof/spec/$2.cfg" >"$cfg"
	# Only the expected property is checked, so that no other violation hides it.
	[ "$3" = survives ] || { sed -i '/^INVARIANTS/d; /^PROPERTIES/d' "$cfg"; echo "$kind $3" >>"$cfg"; }
	if TLC_WORKERS=1 scripts/tlc.sh "$cfg" >"$work/out" 2>&1; then
		result=survives steps=-
		return
	fi
	result=$(sed -n 's/^Error: \(Invariant\|Action property\) \([A-Za-z0-9]*\) is violated.*/\2/p' "$work/out" | head -1)
	steps=$(($(grep -c '^State [0-9]*:' "$work/out") - 1))
	[ -n "$result" ] || { result=error; cat "$work/out" >&2; }
}

echo '| mutant | config | violated | steps | s | weakened |'
echo '|---|---|---|---|---|---|'
while read -r mutant config expected what; do
	case $mutant in '' | '#'*) continue ;; esac
	[ $# -eq 0 ] || [[ " $* " == *" $mutant "* ]] || continue
	began=$SECONDS
	check "$mutant" "$config" "$expected"
	note=
	[ "$result" = "$expected" ] || { note=" **expected: $expected**"; bad=1; }
	echo "| $mutant | ${config#*/} | $result$note | $steps | $((SECONDS - began)) | $what |"
done <$list
[ $bad -eq 0 ] || { echo "spec-mutants.sh: a mutant survived, or violated something other than $list expects" >&2; exit 1; }
