#!/usr/bin/env bash
# npm.sh installs what package-lock.json names into node_modules, where that is not there yet: the CDK and what the page's tests need.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# npm keeps its own copy of the lock of what it has installed, written last.
[ -e node_modules/.package-lock.json ] && [ ! package-lock.json -nt node_modules/.package-lock.json ] || npm ci --no-audit --no-fund --loglevel=error >&2
