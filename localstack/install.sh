#!/usr/bin/env bash
# install.sh puts LocalStack (PyPI) and DynamoDB Local (Maven) into .cache/localstack, once, in half a minute. Needs
# python3.11, java 17 and mvn, and nothing else: no Docker, no account.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$here/../.cache/localstack
pom=$here/../scripts/dynamodb-local/pom.xml
mkdir -p "$cache"

# A stamp names what is installed; it is written last, so that an interrupted install is done again.
once() {
  local what=$1 stamp
  shift
  stamp=$(cat "$@" | sha256sum | cut -d' ' -f1)
  [ "$(cat "$cache/$what.stamp" 2>/dev/null)" = "$stamp" ] && return
  echo "installing $what into .cache/localstack" >&2
  rm -rf "${cache:?}/$what"
  "install_$what"
  echo "$stamp" >"$cache/$what.stamp"
}

install_venv() { "$here/../scripts/venv.sh" "$cache/venv" "$here/requirements.txt"; }

install_jars() {
  mvn -q -B --strict-checksums -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$cache/jars"
  "$here/../scripts/checksums.sh" "$here/../scripts/dynamodb-local/SHA256SUMS" "$cache/jars"
}

once venv "$here/requirements.txt"
once jars "$pom"
