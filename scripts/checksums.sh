#!/usr/bin/env bash
# checksums.sh LIST DIR [SUFFIX] fails unless DIR has only files that LIST names, each with the checksum in LIST. The checksums of
# downloads are kept in the repository, so that a file that has changed is not run, wherever it comes from. With SUFFIX, the script
# checks only files whose names end in it, but in all folders below DIR.
#
# A new version gets a new list: (cd DIR && sha256sum *) >LIST, after checking where the files came from.
set -euo pipefail
list=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$2"
shopt -s nullglob
files=(*)
if [ $# -gt 2 ]; then
	files=()
	while IFS= read -r -d '' file; do files+=("${file#./}"); done < <(find . -type f -name "*$3" -print0)
fi
[ ${#files[@]} -gt 0 ] || { echo "checksums: $PWD is empty" >&2; exit 1; }
foreign=$(sha256sum -- "${files[@]}" | grep -vxF -f "$list" | head -n 1) || true
[ -z "$foreign" ] || {
	echo "checksums: $PWD/${foreign#*  } has the checksum ${foreign%%  *}, which is not in $list: remove the directory and download it again" >&2
	exit 1
}
