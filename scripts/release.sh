#!/usr/bin/env bash
# release.sh snapshot   builds a release's files into dist, without signing and uploading them: archives of nodelease, SBOMs, checksums, the
#                       functions' zips, the plain template, and an OCI layout of the image in dist/image
# release.sh tools      only builds GoReleaser into .cache/bin
# release.sh publish    builds the same files from a tag, signs them, uploads them as a draft, pushes the image to IMAGE. Only CI runs it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GORELEASER=v2.16.0 # v2.17 needs a module that the Go module proxy does not serve

case "${1:-}" in
snapshot | tools) ;;
publish) : "${IMAGE:?publish needs IMAGE, such as ghcr.io/nodelease/nodelease}" ;;
*) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
esac
# Override settings of the machine that would change the binaries, which record their build settings and commit.
export GOFLAGS='' GOOS='' GOARCH=''

bin=$PWD/.cache/bin
goreleaser=$bin/goreleaser-$GORELEASER
if [ ! -x "$goreleaser" ]; then
	GOBIN=$bin go install "github.com/goreleaser/goreleaser/v2@$GORELEASER"
	mv "$bin/goreleaser" "$goreleaser"
fi
[ "$1" != tools ] || exit 0
for tool in sbom image; do
	(cd release && go build -o "$bin/release-$tool" "./$tool")
done
export PATH=$bin:$PATH

rm -rf dist/template dist/assets dist/image
mkdir -p dist/assets
scripts/template.sh dist/template
cp dist/template/nodelease.template.json dist/assets/
for arch in arm64 x86_64; do
	for zip in dist/template/$arch/*.zip; do
		cp "$zip" "dist/assets/nodelease-function-$(basename "$zip" .zip)-$arch.zip"
	done
done

"$goreleaser" check
if [ "$1" = snapshot ]; then
	"$goreleaser" release --snapshot --clean --skip=sign,publish
	release-image -layout dist/image amd64=dist/release/nodelease_linux_amd64_v1/nodelease arm64=dist/release/nodelease_linux_arm64_v8.0/nodelease
else
	"$goreleaser" release --clean
	release-image -push "$IMAGE:${GITHUB_REF_NAME#v}" amd64=dist/release/nodelease_linux_amd64_v1/nodelease arm64=dist/release/nodelease_linux_arm64_v8.0/nodelease
fi
