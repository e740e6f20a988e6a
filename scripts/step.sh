# Sourced by scripts/test.sh and .ci/run. Compares the time of a step with its budget in scripts/budgets.txt.

# busy sets BUSY to two numbers: the CPU seconds that this machine has used so far, and those of this shell's children. Without
# /proc/stat, BUSY is empty. The result is a variable and not output, because in a subshell the children's time would be missing.
busy() {
	local own
	BUSY=
	[ -r /proc/stat ] || return 0
	own=$(mktemp)
	times >"$own"
	BUSY="$(awk -v hz="$(getconf CLK_TCK)" '/^cpu / { print int(($2 + $3 + $4 + $7 + $8 + $9) / hz) }' /proc/stat) $(awk 'NR == 2 { gsub(/[ms]/, " "); print int($1 * 60 + $2 + $3 * 60 + $4) }' "$own")"
	rm -f "$own"
}

# judge STEP SECONDS BEFORE AFTER reports a step above its budget; BEFORE and AFTER are results of busy. It fails only with
# STEP_BUDGETS=1, as in .ci/run, and not if other programs used more than a quarter of the machine, which may have slowed the step.
judge() {
	local budget others
	budget=$(awk -v step="$1" '$1 == step { print $2 }' scripts/budgets.txt)
	[ -n "$budget" ] || { echo "$1 has no budget in scripts/budgets.txt: add one" >&2; return 1; }
	[ "$2" -gt "$budget" ] || return 0
	others=$(echo $3 $4 | awk -v wall="$2" -v cores="$(getconf _NPROCESSORS_ONLN)" 'NF == 4 { print int(100 * ($3 - $1 - ($4 - $2)) / (wall * cores)) }')
	echo "== $1 took $2 s, above its budget of $budget s; other programs, and the step running in parallel, used ${others:-an unknown part}% of the machine's CPU meanwhile" >&2
	[ "${STEP_BUDGETS:-}" = 1 ] && [ "${others:-0}" -le 25 ] && return 1
	return 0
}
