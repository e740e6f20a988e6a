#!/usr/bin/env bash
# venv.sh FOLDER REQUIREMENTS makes FOLDER a virtual environment of Python 3.11 with exactly the packages in REQUIREMENTS, which must have
# hashes. uv installs LocalStack's packages in 15 s, where pip takes two minutes. If uv cannot be downloaded or fails, pip installs them.
set -euo pipefail
folder=$1 requirements=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' "$here/uv.txt")
uv=$here/../.cache/uv-$version/uv

# download puts uv into .cache, with one rename, because another copy of this script may be downloading it too.
download() {
	local new
	mkdir -p "${uv%/*}"
	new=$(mktemp -d "${uv%/*}/new.XXXXXX") || return 1
	"$folder/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --dest "$new" --requirement "$here/uv.txt" &&
		"$folder/bin/python" -m zipfile -e "$new"/uv-*.whl "$new/wheel" && chmod +x "$new"/wheel/uv-*.data/scripts/uv && mv -f "$new"/wheel/uv-*.data/scripts/uv "$uv"
	rm -rf "$new"
	[ -x "$uv" ]
}

# fast installs with uv. uv does not read pip's settings, of which only the package index matters here.
fast() {
	local index
	[ -x "$uv" ] || download || return 1
	index=${PIP_INDEX_URL:-$("$folder/bin/python" -m pip config get global.index-url 2>/dev/null || true)}
	UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-${index:-https://pypi.org/simple}} "$uv" pip install --quiet --no-config --no-cache --python "$folder/bin/python" --no-deps --require-hashes --requirement "$requirements"
}

rm -rf "$folder"
python3.11 -m venv "$folder"
fast >&2 || {
	echo "venv: uv could not install $requirements, using pip, which takes longer" >&2
	rm -rf "$folder" # pip would take packages that uv has half installed for installed
	python3.11 -m venv "$folder"
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes --requirement "$requirements" >&2
}
