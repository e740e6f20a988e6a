#!/usr/bin/env bash
# checksums.sh LIST DIR fails unless DIR has only files that LIST names, each with the checksum in it: the checksums of
# downloads are kept in the repository, and a file that changed, wherever it comes from, is not run.
#
# A new version gets a new list: (cd DIR && sha256sum *) >LIST, after a look at where the files came from.
set -euo pipefail
list=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$2"
shopt -s nullglob
files=(*)
[ ${#files[@]} -gt 0 ] || { echo "checksums: $PWD is empty" >&2; exit 1; }
for file in "${files[@]}"; do
	sum=$(sha256sum <"$file" | cut -d' ' -f1)
	grep -qxF "$sum  $file" "$list" || {
		echo "checksums: $PWD/$file has the checksum $sum, which is not in $list: remove the directory and fetch it again" >&2
		exit 1
	}
done
