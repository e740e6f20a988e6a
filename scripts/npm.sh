#!/usr/bin/env bash
# npm.sh installs the packages of package-lock.json into node_modules if they are missing: the CDK, and tools for the tests of the web UI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# npm writes a copy of the lock file as the last step of an installation, so a newer copy means that everything is installed.
[ -e node_modules/.package-lock.json ] && [ ! package-lock.json -nt node_modules/.package-lock.json ] || npm ci --no-audit --no-fund --loglevel=error >&2
