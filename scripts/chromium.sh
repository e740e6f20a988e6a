#!/usr/bin/env bash
# chromium.sh prints the path of Chromium. If there is none, it installs
# Debian's package first. CHROMIUM overrides the path.
set -euo pipefail

found() { command -v "${CHROMIUM:-chromium}" || command -v chromium-browser; }

if ! found >/dev/null; then
	if ! command -v apt-get >/dev/null; then
		echo "the tests of the web UI need Chromium: install it, and set CHROMIUM=/path/to/it if it is not on the PATH" >&2
		exit 1
	fi
	root=()
	[ "$(id -u)" = 0 ] || root=(sudo -n)
	log=$(mktemp)
	if ! { "${root[@]}" apt-get update && DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >"$log" 2>&1; then
		tail -20 "$log" >&2
		echo "the tests of the web UI need Chromium, and it could not be installed: apt-get install chromium" >&2
		exit 1
	fi
	rm "$log"
fi
found || { echo "Chromium was installed, but is not on the PATH: set CHROMIUM to its path" >&2; exit 1; }
