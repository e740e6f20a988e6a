package release

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const rootsFile = "etc/ssl/certs/ca-certificates.crt"

// images returns the images of the layout, by architecture.
func images(t *testing.T) map[string]v1.Image {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(dist(t, "image"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("got %+v, %v, want 1", manifest, err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if d.Platform == nil || d.Platform.OS != "linux" {
			t.Fatalf("%+v", d)
		}
		found[d.Platform.Architecture] = image
	}
	if found["amd64"] == nil || found["arm64"] == nil || len(found) != 2 {
		t.Fatalf("images for %v, want amd64 and arm64", found)
	}
	return found
}

// unpacked returns a directory that contains an image's file system.
func unpacked(t *testing.T, image v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	for up := dir; up != filepath.Dir(os.TempDir()) && up != "/"; up = filepath.Dir(up) { // the image's user must be able to reach dir
		if err := os.Chmod(up, 0o755); err != nil || filepath.Dir(up) == filepath.Clean(os.TempDir()) {
			break
		}
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		packed, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}
		untar(t, dir, text)
	}
	return dir
}

// Each image has a static binary of its architecture, a user that is not root, CA roots, and a folder that anybody may write to.
func TestImageLayout(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, image := range images(t) {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.OS != "linux" || config.Config.User != "65532:65532" || strings.Join(config.Config.Entrypoint, " ") != "/nodelease" {
			t.Errorf("%s: %+v", arch, config)
		}
		dir := unpacked(t, image)
		program, err := elf.Open(filepath.Join(dir, "nodelease"))
		if err != nil {
			t.Fatal(err)
		}
		if libraries, err := program.ImportedLibraries(); program.Machine != machines[arch] || program.Type != elf.ET_EXEC || err != nil || len(libraries) > 0 {
			t.Errorf("%s: %v, %v, libraries %q, %v", arch, program.Machine, program.Type, libraries, err)
		}
		_ = program.Close()
		for file, mode := range map[string]os.FileMode{"nodelease": 0o755, "tmp": os.ModeDir | os.ModeSticky | 0o777, "etc/passwd": 0o644, rootsFile: 0o644} {
			if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode() != mode {
				t.Errorf("%s: %s: %v, %v, want %v", arch, file, info, err, mode)
			}
		}
		if !regexp.MustCompile(`(?m)^nonroot:x:65532:65532:`).Match(read(t, filepath.Join(dir, "etc/passwd"))) {
			t.Errorf("%s: etc/passwd has no user 65532", arch)
		}
		names := map[string]bool{}
		for rest := read(t, filepath.Join(dir, rootsFile)); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			root, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			names[root.Subject.CommonName] = true
		}
		for _, aws := range []string{"Amazon Root CA 1", "Amazon Root CA 2", "Amazon Root CA 3", "Amazon Root CA 4"} {
			if !names[aws] {
				t.Errorf("%s: of %d roots none is %s", arch, len(names), aws)
			}
		}
	}
}

// contained returns a command that runs the image's program in the image's file system, with its user, its environment and its folder.
func contained(t *testing.T, dir string, config *v1.ConfigFile, args ...string) *exec.Cmd {
	t.Helper()
	words := append(append(config.Config.Entrypoint, config.Config.Cmd...), args...)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Env, cmd.Dir = config.Config.Env, config.Config.WorkingDir
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532, NoSetGroups: true}}
	if os.Getuid() != 0 { // in a user namespace, chroot does not require root
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// The image of this machine leases a node ID as it would in a container: by its own entry point, user and environment.
func TestImageClaims(t *testing.T) {
	image := images(t)[runtime.GOARCH]
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	dir := unpacked(t, image)
	endpoint := serveDynamoDB(t, filepath.Join(dir, "nodelease"))
	to := []string{"--endpoint", endpoint, "--table", "leases", "--pool", "orders", "--json"}
	output(t, contained(t, dir, config, append([]string{"seed", "--size", "4"}, to...)...))
	line := start(t, contained(t, dir, config, append([]string{"serve", "--listen", "127.0.0.1:0"}, to...)...))
	var serving struct{ Listen string }
	if err := json.Unmarshal([]byte(line()), &serving); err != nil || serving.Listen == "" {
		t.Fatalf("%+v, %v", serving, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, serving.Listen+"/v1/ids?n=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var made struct{ IDs []string }
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil || res.StatusCode != http.StatusOK || len(made.IDs) != 2 {
		t.Errorf("%s: %v, %v, want StatusCode OK and 2", res.Status, made, err)
	}
	if got := output(t, contained(t, dir, config, append([]string{"list"}, to...)...)); !bytes.Contains(got, []byte(`"held":1`)) && !bytes.Contains(got, []byte(`"state":"held"`)) {
		t.Errorf("the pool has no held node ID: %s", got)
	}
}

// The program trusts the roots in its image. It sends a request to a server whose root has been added to them, and sends none to a server
// whose root is unknown. The test needs no server on the Internet, which a build may not be able to reach.
func TestImageHandshake(t *testing.T) {
	image := images(t)[runtime.GOARCH]
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	dir := unpacked(t, image)
	root, served := authority(t)
	shaken := make(chan uint16, 64)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shaken <- r.TLS.Version
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"Requested resource not found"}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{served}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the server would log each handshake that the program ends
	server.StartTLS()
	defer server.Close()
	ask := func() string {
		cmd := contained(t, dir, config, "pools", "--endpoint", server.URL, "--table", "leases", "--timeout", "20s")
		cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=eu-west-1")
		out, _ := cmd.CombinedOutput() // the command fails, because there is no table
		return string(out)
	}
	if said := ask(); !strings.Contains(said, "unknown authority") || len(shaken) > 0 {
		t.Errorf("with only the image's roots: %d requests; %s", len(shaken), said)
	}
	file := filepath.Join(dir, rootsFile)
	if err := os.WriteFile(file, append(read(t, file), root...), 0o644); err != nil {
		t.Fatal(err)
	}
	said := ask()
	select {
	case version := <-shaken:
		if version < tls.VersionTLS12 {
			t.Errorf("TLS version %x", version)
		}
	default:
		t.Errorf("no handshake: %s", said)
	}
}

// authority makes a root certificate, as PEM, and a certificate for 127.0.0.1 that the root has signed.
func authority(t *testing.T) (root []byte, served tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a root of this test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "a server of this test"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, leafKey.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}
}
