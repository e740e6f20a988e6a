#!/usr/bin/env bash
# Runs a command with a real sidecar: nodelease serve, on the embedded DynamoDB, on a Unix
# socket that NODELEASE_SIDECAR names, with the default layout. NODELEASE_BINARY names a built
# nodelease; without it one is built.
#
#   clients/with-sidecar.sh mvn -f clients/java verify
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
pids=()
finish() {
	for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' TERM INT

nodelease=${NODELEASE_BINARY:-$work/nodelease}
[ -n "${NODELEASE_BINARY:-}" ] || (cd "$here/.." && go build -o "$nodelease" ./cmd/nodelease)

# begin NAME ARGUMENT...: starts nodelease, and returns when it has printed its first line, which
# is then in $line.
begin() {
	local name=$1 out
	shift
	mkfifo "$work/$name"
	"$nodelease" "$@" >"$work/$name" 2>"$work/$name.log" </dev/null &
	pids+=($!)
	exec {out}<"$work/$name"
	read -r line <&"$out" || { cat "$work/$name.log" >&2; exit 1; }
}
begin dynamodb dynamodb --table leases --listen 127.0.0.1:0 --json
AWS_ENDPOINT_URL_DYNAMODB=$(sed 's/.*"endpoint": *"\([^"]*\)".*/\1/' <<<"$line")
export AWS_ENDPOINT_URL_DYNAMODB
"$nodelease" seed --table leases --pool clients --size 8 >"$work/seed.log" 2>&1 </dev/null || { cat "$work/seed.log" >&2; exit 1; }
begin sidecar serve --table leases --pool clients --listen "unix:$work/sidecar.sock"
export NODELEASE_SIDECAR=unix:$work/sidecar.sock
"$@"
