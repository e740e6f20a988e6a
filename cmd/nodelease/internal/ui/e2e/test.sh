#!/usr/bin/env bash
# Runs the tests of the page in a real Chromium, which it installs where there is
# none. With PICTURES=folder the pictures of the documentation are made there. With the
# argument trace the page is measured instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../../.."
CHROMIUM=$(scripts/chromium.sh)
export CHROMIUM
scripts/npm.sh
if [ "${1:-}" = trace ]; then
	exec node cmd/nodelease/internal/ui/e2e/trace.mjs
fi
exec node --test --test-concurrency=1 --test-reporter=spec cmd/nodelease/internal/ui/e2e/${ONLY:-*}.test.mjs
