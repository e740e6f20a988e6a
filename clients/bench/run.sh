#!/usr/bin/env bash
# Compares the clients with the usual generators of their languages, in one run and on one
# sidecar, and writes docs/benchmarks-clients.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. ./tools.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd .. && go build -o "$work/nodelease" ./cmd/nodelease)
mvn -q -B --no-transfer-progress --strict-checksums "-Dmaven.repo.local=$cache/m2" -f bench/pom.xml dependency:copy-dependencies "-DoutputDirectory=$work/lib"
../scripts/checksums.sh maven.SHA256SUMS "$cache/m2" .jar
javac --release 17 -XDstringConcat=inline -d "$work/classes" -cp "$work/lib/*" java/core/src/main/java/dev/nodelease/*.java bench/Bench.java
jar --create --file "$work/client.jar" -C "$work/classes" .
cp bench/bench.mjs "$work" && mkdir "$work/node_modules"
ln -s "$PWD/javascript" "$work/node_modules/nodelease"
ln -s "$npm/node_modules/nodejs-snowflake" "$work/node_modules/nodejs-snowflake"
NODELEASE_BINARY=$work/nodelease PYTHONPATH=$PWD/python/src BENCH_WORK=$work ./with-sidecar.sh "$venv/bin/python" bench/run.py ../docs/benchmarks-clients.md
