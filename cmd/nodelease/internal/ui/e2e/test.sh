#!/usr/bin/env bash
# Runs the tests of the web UI in a real Chromium, which it installs if there is
# none. With PICTURES=folder it takes the screenshots of the documentation. With the
# argument trace it measures the page instead.
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
# The demo's page mostly waits for its fleet, so it runs in parallel with the others.
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
