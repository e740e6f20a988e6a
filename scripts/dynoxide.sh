#!/usr/bin/env bash
# Builds dynoxide, a DynamoDB emulator in Rust, once, to .cache, and prints its path. Its answers are held to recordings of AWS by a
# suite of its own, so it is a third opinion beside DynamoDB Local's and ours. Needs Rust; the build takes some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=3.2.0
dir=$PWD/.cache/dynoxide-$version
if ! [ -x "$dir/bin/dynoxide" ]; then
	command -v cargo >/dev/null || { echo "dynoxide: needs Rust 1.88 or newer as 'cargo' (https://rustup.rs)" >&2; exit 1; }
	mkdir -p "$dir"
	cargo install --quiet dynoxide-rs --version "$version" --locked --no-default-features --features native-sqlite,http-server,cli --root "$dir" >&2
fi
echo "$dir/bin/dynoxide"
