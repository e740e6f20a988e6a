#!/usr/bin/env bash
# Checks the clients as packages, on real frameworks, and drives them through the conformance
# suite. Downloads go into .cache.
set -euo pipefail
cd "$(dirname "$0")"
. ./tools.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logged() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }

# Small enough to read in one sitting: the core of each client has at most 400 lines of code, not
# counting blank lines, comments, imports and lone brackets. asyncio, Spring Boot and
# Hibernate are not part of the core.
core() { # core LANGUAGE FILE...
	local n
	n=$(cat "${@:2}" | grep -vcE '^[[:space:]]*($|//|/?\*|#|import |from [a-z_.]+ import |package |[])}]+[;,]?$)')
	[ "$n" -le 400 ] || { echo "the core of the client in $1 has $n lines of code: at most 400 are allowed, so that it can be read in one sitting" >&2; exit 1; }
	echo "$1: a core of $n lines"
}
core Java java/core/src/main/java/dev/nodelease/*.java
core Python python/src/nodelease/{__init__,_core,_generator}.py
core JavaScript javascript/src/index.js

# A sidecar for the rest of the script.
if [ -z "${NODELEASE_BINARY:-}" ]; then
	(cd .. && go build -o "$work/nodelease" ./cmd/nodelease)
	export NODELEASE_BINARY=$work/nodelease
fi

# Java: the jars, and the tests on Hibernate and Spring Boot with H2. Maven and its plugins have the recorded checksums:
# the jars from before are checked first, those that it has downloaded afterwards.
maven() {
	[ ! -d "$cache/m2" ] || ../scripts/checksums.sh maven.SHA256SUMS "$cache/m2" .jar
	logged ./with-sidecar.sh mvn -B --no-transfer-progress --strict-checksums "-Dmaven.repo.local=$cache/m2" -f "$@"
	../scripts/checksums.sh maven.SHA256SUMS "$cache/m2" .jar
}
maven java clean verify
if grep -l 'skipped="[1-9]' java/*/target/surefire-reports/*.xml; then
	echo "these Java tests were skipped" >&2
	exit 1
fi
# Reproducible: the same bytes, in another folder.
cp -R java "$work/java"
maven "$work/java" clean package -Dmaven.test.skip=true
for jar in java/*/target/*.jar; do
	cmp "$jar" "$work/$jar"
	echo "java package ${jar##*/}"
done

# Python: types, the databases, the wheel and the archive, and an install in an empty environment.
(cd python && "$venv/bin/python" -m mypy --cache-dir "$cache/mypy" src)
(cd python && PYTHONPATH=src logged ../with-sidecar.sh "$venv/bin/python" -W error -m unittest discover -s tests)
for copy in 1 2; do
	cp -R python "$work/python$copy"
	(cd "$work/python$copy" && SOURCE_DATE_EPOCH=1767225600 logged "$venv/bin/python" -m build --no-isolation --outdir "$work/dist$copy")
done
diff -r "$work/dist1" "$work/dist2"
"$venv/bin/python" -m twine check --strict "$work"/dist1/*
python3 -m venv "$work/empty"
"$work/empty/bin/pip" -q --disable-pip-version-check install --no-index "$work"/dist1/*.whl
"$work/empty/bin/python" -c 'import nodelease; print("python package", nodelease.SONYFLAKE.decompose(1 << 24).time)'

# JavaScript: the tests, the archive, and an install in an empty project, where a program in
# strict TypeScript is compiled and run.
logged ./with-sidecar.sh node --test javascript/test/*.test.mjs
for copy in 1 2; do
	cp -R javascript "$work/javascript$copy" && mkdir "$work/pack$copy"
	(cd "$work/javascript$copy" && logged npm pack --pack-destination "$work/pack$copy")
done
diff -r "$work/pack1" "$work/pack2"
mkdir "$work/project"
echo '{"type":"module"}' >"$work/project/package.json"
(cd "$work/project" && logged npm install --no-audit --no-fund --offline "$work"/pack1/*.tgz)
cp javascript/test/types/{consumer.ts,tsconfig.json} "$work/project"
ln -s "$npm/node_modules/@types" "$work/project/node_modules/@types"
"$npm/node_modules/.bin/tsc" -p "$work/project"
./with-sidecar.sh node "$work/project/consumer.js"

# All of them on the real sidecar.
cd ..
NODELEASE_JAVA_VIRTUAL=$(find "$venv" -path '*/bin/java' -type f) NODELEASE_CLIENTS=python,python-asyncio,javascript,java,java-virtual \
	go test -count=1 -timeout 10m ./clients/conformance
