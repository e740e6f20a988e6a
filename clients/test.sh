#!/usr/bin/env bash
# Checks the clients as packages, and drives them through the conformance suite. Downloads
# go into .cache.
set -euo pipefail
cd "$(dirname "$0")"
cache=$(mkdir -p ../.cache/clients && cd ../.cache/clients && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Java: the jar, and the tests.
(cd java && mvn -q -B --no-transfer-progress "-Dmaven.repo.local=$cache/m2" clean verify)

# Python: types, the wheel and the archive, and an install in an empty environment.
venv=$cache/venv-1
if [ ! -e "$venv/done" ]; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" -q --disable-pip-version-check install build==1.2.2.post1 twine==6.1.0 hatchling==1.27.0 mypy==1.15.0
	touch "$venv/done"
fi
(cd python && "$venv/bin/mypy" --cache-dir "$cache/mypy" src)
# Reproducible: the same bytes twice.
for copy in 1 2; do
	(cd python && SOURCE_DATE_EPOCH=1767225600 "$venv/bin/python" -m build --no-isolation --outdir "$work/dist$copy" >"$work/build.log") || { cat "$work/build.log" >&2; exit 1; }
done
diff -r "$work/dist1" "$work/dist2"
"$venv/bin/twine" check --strict "$work"/dist1/*
python3 -m venv "$work/empty"
"$work/empty/bin/pip" -q --disable-pip-version-check install --no-index "$work"/dist1/*.whl
"$work/empty/bin/python" -c 'import nodelease; print("python package", nodelease.SONYFLAKE.decompose(1 << 24).time)'

# JavaScript: the archive, and an install in an empty project.
logged() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
(cd javascript && logged npm pack --pack-destination "$work")
mkdir "$work/project"
cd "$work/project"
echo '{"type":"module"}' >package.json
logged npm install --no-audit --no-fund --offline "$work/nodelease-0.1.0.tgz"
node -e 'import("nodelease").then(m => console.log("npm package", m.layouts.sonyflake.decompose(1n << 24n).time.toISOString()))'
cd - >/dev/null

# All of them on the real sidecar.
cd ..
NODELEASE_CLIENTS=python,python-asyncio,javascript,java go test -count=1 -timeout 10m ./clients/conformance
