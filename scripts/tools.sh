#!/usr/bin/env bash
# tools.sh STEP...   Checks that the tools of these steps of scripts/test.sh are installed and new enough, and reports all that are
# not at once, with where to get them. If Node is too old, it installs npm's package of Node into .cache/node, and prints the folder
# to put before PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NODE=22.23.3
missing=()

# version COMMAND... prints the first version number in the output of a command, or nothing if there is no such command.
version() {
	local said
	said=$("$@" 2>&1 | sed 's/\x1b\[[0-9;]*m//g') || return 0
	[[ ! $said =~ [0-9]+(\.[0-9]+)* ]] || echo "${BASH_REMATCH[0]}"
}
# tool NAME LEAST GET COMMAND... checks a tool: COMMAND prints its version, LEAST is the oldest accepted one, and GET says where to
# get it.
tool() {
	local name=$1 least=$2 get=$3 have
	shift 3
	have=$(version "$@")
	if [ -z "$have" ]; then
		missing+=("$name $least or newer, as '$1': not found ($get)")
	elif [ "$(printf '%s\n%s\n' "$least" "$have" | sort -V | head -1)" != "$least" ]; then
		missing+=("$name $least or newer, as '$1': $have is too old ($get)")
	fi
}

steps=" $* "
some() { for s; do case $steps in *" $s "*) return 0 ;; esac; done; return 1; }

tool Go 1.26 "https://go.dev/dl" go env GOVERSION
tool git 2.20 "Debian: apt-get install git" git --version
if some suite ui localstack slow race pages benches differential spec reproducible platforms clients deployed awsverify kills release; then
	tool "a JDK" 17 "Debian: apt-get install openjdk-17-jdk-headless" javac -version
	tool Maven 3.6 "Debian: apt-get install maven" mvn --version
	tool Python 3.11 "Debian: apt-get install python3" python3.11 --version
	python3.11 -c 'import ensurepip, venv' 2>/dev/null || missing+=("Python's venv and pip (Debian: apt-get install python3-venv python3-pip)")
	tool npm 8 "Debian: apt-get install npm" npm --version
fi
if some differential; then
	tool Rust 1.88 "https://rustup.rs" cargo --version
fi
if [ ${#missing[@]} -gt 0 ]; then
	echo "${#missing[@]} tools are missing:" >&2
	printf '  %s\n' "${missing[@]}" >&2
	exit 1
fi

# Node runs the CDK, the tests of the web UI and a client. An old Node is no reason to stop, because npm can install a newer one.
if some suite ui localstack slow race pages platforms clients deployed awsverify kills release && ! printf '20\n%s\n' "$(version node --version)" | sort -V -C; then
	dir=$PWD/.cache/node
	if [ ! -x "$dir/node_modules/node/bin/node" ]; then
		echo "node is missing or older than 20: downloading npm's node@$NODE into .cache/node, once" >&2
		npm install --no-audit --no-fund --loglevel=error --prefix "$dir" "node@$NODE" >&2
	fi
	echo "$dir/node_modules/node/bin"
fi
