#!/usr/bin/env bash
# Builds dynoxide, a DynamoDB emulator in Rust, into .cache, once, and prints its path. The emulator's own suite compares its answers
# with recordings of AWS, so its answers are a third opinion besides DynamoDB Local's and ours. Needs Rust; the build takes some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=3.2.0
checksum=a2d1ffc871ddd8d1d26bcd0a52e32386a8cf08083c0995b78959afa987923ae4
dir=$PWD/.cache/dynoxide-$version
if ! [ -x "$dir/bin/dynoxide" ]; then
	command -v cargo >/dev/null || { echo "dynoxide: needs Rust 1.88 or newer as 'cargo' (https://rustup.rs)" >&2; exit 1; }
	mkdir -p "$dir"
	# The crate is downloaded and checked before it is built. Its Cargo.lock has the checksums of all of its dependencies.
	cargo info --quiet "dynoxide-rs@$version" >/dev/null
	crate=("${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"dynoxide-rs-$version.crate")
	for file in "${crate[@]}"; do
		echo "$checksum  $file" | sha256sum --check --quiet >&2 || { echo "dynoxide: $file is not the crate that was reviewed: remove it" >&2; exit 1; }
	done
	cargo install --quiet dynoxide-rs --version "$version" --locked --no-default-features --features native-sqlite,http-server,cli --root "$dir" >&2
fi
echo "$dir/bin/dynoxide"
