#!/usr/bin/env bash
# Downloads AWS's Lambda runtime interface emulator to .cache/rie/aws-lambda-rie, once, and prints its path. AWS ships the emulator, a
# Linux program, inside the aws-sam-cli wheel on PyPI, of which only that file is kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=1.170.0
sha256=24ebaf5ecba38dc1758089968cb89ab61e124b84e92a344fc7a2771a47f4d0bf
dir=$PWD/.cache/rie
target=$dir/aws-lambda-rie

die() {
    echo "rie: $*" >&2
    exit 1
}

case "$(uname -sm)" in
"Linux x86_64") arch=x86_64 ;;
"Linux aarch64" | "Linux arm64") arch=arm64 ;;
*) die "the emulator runs on Linux, x86_64 or arm64; this is $(uname -sm)" ;;
esac

if ! [ -x "$target" ] || [ "$(cat "$dir/version" 2>/dev/null)" != "$version-$arch" ]; then
    command -v python3 >/dev/null || die "needs python3 with pip: install them (Debian: apt-get install python3-pip)"
    mkdir -p "$dir"
    new=$(mktemp -d "$dir/new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    echo "aws-sam-cli==$version --hash=sha256:$sha256" >"$new/requirements.txt"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --dest "$new" --requirement "$new/requirements.txt" >&2 || die "pip could not download aws-sam-cli $version"
    python3 - "$new" "$arch" <<'PYTHON'
import glob, sys, zipfile
new, arch = sys.argv[1:]
with zipfile.ZipFile(glob.glob(new + "/*.whl")[0]) as wheel, open(new + "/rie", "wb") as out:
    out.write(wheel.read("samcli/local/rapid/aws-lambda-rie-" + arch))
PYTHON
    chmod +x "$new/rie"
    mv -f "$new/rie" "$target" # in one step, since another copy of this script may do the same
    echo "$version-$arch" >"$dir/version"
fi
echo "$target"
