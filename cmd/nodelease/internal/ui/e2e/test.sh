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
tests=cmd/nodelease/internal/ui/e2e
run() { exec node --test --test-concurrency=1 --test-reporter=spec "$@"; }
if [ -n "${ONLY:-}" ]; then
	run "$tests/$ONLY.test.mjs"
fi
# The demo's page mostly waits for what is done to its fleet, so it runs beside the others.
others=()
for file in "$tests"/*.test.mjs; do
	[ "$file" = "$tests/demo.test.mjs" ] || others+=("$file")
done
log=$(mktemp)
(run "$tests/demo.test.mjs") >"$log" 2>&1 &
demo=$!
trap 'kill "$demo" 2>/dev/null && wait "$demo"; rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
status=0
(run "${others[@]}") || status=$?
wait "$demo" || status=$?
cat "$log"
exit "$status"
