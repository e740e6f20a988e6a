// Image makes the OCI image of the nodelease command: its binary, the CA roots of the NSS trust store, a user that is not root, and a
// temporary folder. The same binaries make the same image. It needs no Docker.
//
//	image -layout DIR amd64=PATH arm64=PATH        writes an OCI layout with one image for each architecture
//	image -push REGISTRY/NAME:TAG amd64=PATH …     pushes them, with the credentials of docker login or GITHUB_TOKEN
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/github"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	dir := flag.String("layout", "", "write an OCI layout into this `folder`, which must not exist")
	push := flag.String("push", "", "push to this `reference`")
	flag.Parse()
	if err := run(*dir, *push, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(dir, push string, binaries []string) error {
	if (dir == "") == (push == "") || len(binaries) == 0 {
		return errors.New("use -layout DIR or -push REFERENCE, and binaries as amd64=PATH")
	}
	index, err := indexOf(binaries)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if dir != "" {
		if _, err := os.Stat(dir); err == nil {
			return fmt.Errorf("%s exists: remove it", dir)
		}
		p, err := layout.Write(dir, empty.Index)
		if err != nil {
			return err
		}
		if err := p.AppendIndex(index); err != nil {
			return err
		}
	} else {
		ref, err := name.ParseReference(push)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.NewMultiKeychain(authn.DefaultKeychain, github.Keychain))); err != nil {
			return err
		}
	}
	fmt.Println(digest)
	return nil
}

// indexOf makes one image for each architecture.
func indexOf(binaries []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	roots, err := layerOf(base())
	if err != nil {
		return nil, err
	}
	for _, arg := range binaries {
		arch, path, ok := strings.Cut(arg, "=")
		if !ok || arch != "amd64" && arch != "arm64" {
			return nil, fmt.Errorf("%q is not a binary: use amd64=PATH or arm64=PATH", arg)
		}
		text, err := os.ReadFile(path) //nolint:gosec // its user names the file
		if err != nil {
			return nil, err
		}
		binary, err := layerOf([]entry{{tar.Header{Name: "nodelease", Mode: 0o755}, text}})
		if err != nil {
			return nil, err
		}
		image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), roots, binary)
		if err != nil {
			return nil, err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		config = config.DeepCopy()
		config.OS, config.Architecture = "linux", arch
		config.Config = v1.Config{
			Entrypoint: []string{"/nodelease"}, User: "65532:65532", WorkingDir: "/",
			Env: []string{"PATH=/", "HOME=/tmp", "TMPDIR=/tmp", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
			Labels: map[string]string{
				"org.opencontainers.image.title": "nodelease", "org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.source": "https://github.com/nodelease/nodelease",
			},
		}
		if image, err = mutate.ConfigFile(image, config); err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

type entry struct {
	header tar.Header
	text   []byte
}

// base returns the files that a program without a shell needs.
func base() []entry {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a PEM file cannot say for which other uses a root is trusted
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	dir := func(name string, mode int64) entry {
		return entry{header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}}
	}
	file := func(name, text string) entry { return entry{tar.Header{Name: name, Mode: 0o644}, []byte(text)} }
	return []entry{
		dir("etc/", 0o755), dir("etc/ssl/", 0o755), dir("etc/ssl/certs/", 0o755), dir("tmp/", 0o1777),
		file("etc/passwd", "root:x:0:0:root:/:/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/nologin\n"),
		file("etc/group", "root:x:0:\nnonroot:x:65532:\n"),
		file("etc/ssl/certs/ca-certificates.crt", roots.String()),
	}
}

// layerOf packs entries into a layer. All entries belong to root and are dated 1970, so that the same files make the same layer.
func layerOf(entries []entry) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, e := range entries {
		e.header.Size = int64(len(e.text))
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}
