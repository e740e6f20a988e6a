#!/usr/bin/env bash
# DynamoDB Local, Amazon's own emulator, for the tests that compare with DynamoDB.
#
#   scripts/dynamodb-local.sh run -- go test ./...   start a server, run the command with its endpoint in
#                                                    NODELEASE_DYNAMODB_LOCAL, stop the server; Go reuses cached
#                                                    test results although each run has another port
#   scripts/dynamodb-local.sh start                  start a server that keeps running, and print its endpoint
#   scripts/dynamodb-local.sh stop                   stop that server
#
# Any number of "run" may run at once: each has its own server, port and tables. The server is
# downloaded once through Maven (51 MB); its licence forbids redistribution, so it stays out of the
# repository. It listens on 127.0.0.1 only and keeps everything in memory.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$here/../.cache/dynamodb-local
pom=$here/dynamodb-local/pom.xml
version=$(cksum <"$pom" | cut -d' ' -f1)
lib=$cache/lib-$version

die() {
	echo "dynamodb-local: $*" >&2
	exit 1
}

fetch() {
	java --list-modules 2>/dev/null | grep -q '^jdk.compiler' ||
		die "needs a JDK of version 17 or newer as 'java': install one (Debian: apt-get install openjdk-17-jdk-headless)"
	if [ -d "$lib" ]; then
		"$here/checksums.sh" "$here/dynamodb-local/SHA256SUMS" "$lib" || exit 1
		return
	fi
	command -v mvn >/dev/null || die "needs Maven as 'mvn' to download DynamoDB Local: install it (Debian: apt-get install maven)"
	echo "dynamodb-local: downloading DynamoDB Local, once" >&2
	local new
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/new.XXXXXX")
	if ! mvn -q -B --strict-checksums -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$new" >&2; then
		rm -rf "$new"
		die "Maven could not download it: see above; behind a proxy, set one in ~/.m2/settings.xml"
	fi
	"$here/checksums.sh" "$here/dynamodb-local/SHA256SUMS" "$new" || { rm -rf "$new"; exit 1; }
	# If another copy of this script was faster, use its jars.
	[ -d "$lib" ] && rm -rf "$new" || mv "$new" "$lib"
}

# server DIR [attached] replaces the shell by the Java process.
server() {
	exec java -Xmx512m -Djava.library.path="$lib" -cp "$lib/*" "$here/dynamodb-local/Loopback.java" "$1/endpoint" "${2:-}" >"$1/log" 2>&1
}

# await DIR PID waits until the server answers.
await() {
	for _ in $(seq 600); do
		[ -f "$1/endpoint" ] && return
		if ! kill -0 "$2" 2>/dev/null; then
			cat "$1/log" >&2
			die "the server ended before it was ready: see above"
		fi
		sleep 0.1
	done
	die "the server was not ready within a minute: see $1/log"
}

run() {
	[ $# -gt 0 ] || die "run: which command? scripts/dynamodb-local.sh run -- go test ./..."
	fetch
	dir=$(mktemp -d "$cache/run.XXXXXX")
	java='' command=''
	# The server belongs to this script alone and ends with it: by this trap or, if the trap cannot
	# run (kill -9), because the server's standard input ends.
	trap 'stop_run' EXIT
	trap 'interrupted=1; [ -z "$command" ] || kill -TERM -- "-$command" 2>/dev/null || true; [ -n "$command" ] || exit 130' INT TERM HUP
	mkfifo "$dir/alive"
	(server "$dir" attached) <"$dir/alive" &
	java=$!
	exec 9>"$dir/alive"
	await "$dir" "$java"
	NODELEASE_DYNAMODB_LOCAL=$(cat "$dir/endpoint") NODELEASE_DYNAMODB_LOCAL_VERSION=$version
	export NODELEASE_DYNAMODB_LOCAL NODELEASE_DYNAMODB_LOCAL_VERSION
	set -m # gives the command a process group of its own, which can be ended as a whole
	"$@" 9>&- &
	command=$!
	set +m
	local status=0
	wait "$command" || status=$?
	# wait also returns when a signal comes, before the command has ended.
	while kill -0 "$command" 2>/dev/null; do
		wait "$command" || status=$?
	done
	[ -z "${interrupted:-}" ] || status=130
	exit "$status"
}

stop_run() {
	if [ -n "$java" ]; then
		kill "$java" 2>/dev/null || true
		wait "$java" 2>/dev/null || true
	fi
	rm -rf "$dir"
}

# running DIR succeeds if the server that "start" has started still runs. It also compares the
# arguments of the process, since process IDs are reused.
running() {
	[ -f "$1/pid" ] && ps -o args= -p "$(cat "$1/pid")" 2>/dev/null | grep -qF "$1/endpoint"
}

start() {
	fetch
	dir=$cache/started
	if running "$dir"; then # a server that another copy of this script has just started is not replaced, since nothing would end it
		await "$dir" "$(cat "$dir/pid")"
		echo "dynamodb-local: already running" >&2
	else
		rm -rf "$dir"
		mkdir -p "$dir"
		(server "$dir") </dev/null &
		echo $! >"$dir/pid"
		disown
		await "$dir" "$(cat "$dir/pid")"
	fi
	echo "export NODELEASE_DYNAMODB_LOCAL=$(cat "$dir/endpoint") NODELEASE_DYNAMODB_LOCAL_VERSION=$version"
}

stop() {
	dir=$cache/started
	if ! running "$dir"; then
		echo "dynamodb-local: not started" >&2
		return
	fi
	pid=$(cat "$dir/pid")
	kill "$pid"
	while running "$dir"; do sleep 0.1; done
	rm -rf "$dir"
}

case ${1:-} in
run)
	shift
	[ "${1:-}" != -- ] || shift
	run "$@"
	;;
start | stop) "$1" ;;
*)
	sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
	;;
esac
