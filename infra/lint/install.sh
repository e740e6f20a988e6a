#!/usr/bin/env bash
# install.sh puts cfn-lint and parliament (PyPI, Python 3.11) into .cache/lint, once; TestLint runs them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$here/../../.cache/lint
stamp=$(sha256sum <"$here/requirements.txt")
[ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ] && exit
echo "installing cfn-lint and parliament into .cache/lint" >&2
"$here/../../scripts/venv.sh" "$cache" "$here/requirements.txt"
echo "$stamp" >"$cache/stamp"
