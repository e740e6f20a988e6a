// Package release tests what scripts/release.sh builds, as a user does who has nothing else: go test . -args -dist ../dist
package release

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var distFlag = flag.String("dist", "", "the `folder` written by scripts/release.sh snapshot")

func dist(t *testing.T, elements ...string) string {
	t.Helper()
	if *distFlag == "" {
		t.Skip("NOT TESTED: a release's files. To test them: scripts/test.sh release")
	}
	return filepath.Join(append([]string{*distFlag}, elements...)...)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// one returns the only file that a pattern matches.
func one(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: got %q, %v, want one file", pattern, files, err)
	}
	return files[0]
}

// checksums.txt lists every file of the release, with the right checksum.
func TestChecksums(t *testing.T) {
	var listed []string
	for line := range strings.Lines(string(read(t, dist(t, "release", "checksums.txt")))) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		file := dist(t, "release", name)
		if _, err := os.Stat(file); err != nil {
			file = dist(t, "assets", name)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(read(t, file))); !ok || got != sum {
			t.Errorf("%s: its sum is %s, listed is %q", name, got, line)
		}
		listed = append(listed, name)
	}
	for _, want := range []string{
		`nodelease_.*_linux_amd64\.tar\.gz`, `nodelease_.*_linux_arm64\.tar\.gz`, `nodelease_.*_darwin_amd64\.tar\.gz`, `nodelease_.*_darwin_arm64\.tar\.gz`,
		`nodelease_.*_windows_amd64\.zip`, `nodelease_.*_windows_arm64\.zip`,
		`nodelease_.*_linux_amd64\.cdx\.json`, `nodelease_.*_linux_arm64\.cdx\.json`, `nodelease_.*_darwin_amd64\.cdx\.json`, `nodelease_.*_darwin_arm64\.cdx\.json`,
		`nodelease_.*_windows_amd64\.cdx\.json`, `nodelease_.*_windows_arm64\.cdx\.json`, `nodelease\.template\.json`,
		`nodelease-function-bootstrap-arm64\.zip`, `nodelease-function-reaper-arm64\.zip`, `nodelease-function-poolmetric-arm64\.zip`,
		`nodelease-function-bootstrap-x86_64\.zip`, `nodelease-function-reaper-x86_64\.zip`, `nodelease-function-poolmetric-x86_64\.zip`,
	} {
		if !slices.ContainsFunc(listed, regexp.MustCompile("^"+want+"$").MatchString) {
			t.Errorf("checksums.txt lists no %s, but %q", want, listed)
		}
	}
}

// Each SBOM names the binary's own modules.
func TestSBOM(t *testing.T) {
	files, err := filepath.Glob(dist(t, "release", "*.cdx.json"))
	if err != nil || len(files) != 6 {
		t.Fatalf("got %q, %v, want 6", files, err)
	}
	for _, file := range files {
		var bom struct {
			BOMFormat  string
			Components []struct{ Name, Version, PURL string }
		}
		if err := json.Unmarshal(read(t, file), &bom); err != nil || bom.BOMFormat != "CycloneDX" {
			t.Fatalf("%s: %q, %v, want BOMFormat CycloneDX", file, bom.BOMFormat, err)
		}
		var names []string
		for _, c := range bom.Components {
			names = append(names, c.Name)
			if c.Version == "" || c.PURL != "pkg:golang/"+c.Name+"@"+c.Version {
				t.Errorf("%s: %+v", file, c)
			}
		}
		for _, want := range []string{"stdlib", "github.com/aws/aws-sdk-go-v2/service/dynamodb", "github.com/spf13/cobra"} {
			if !slices.Contains(names, want) {
				t.Errorf("%s does not list %s", file, want)
			}
		}
		if slices.Contains(names, "github.com/aws/aws-cdk-go/awscdk/v2") {
			t.Errorf("%s lists the CDK, which is not in the binary", file)
		}
	}
}

// The functions' zips have one program each, for the architecture in their names.
func TestFunctionZips(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"arm64": elf.EM_AARCH64, "x86_64": elf.EM_X86_64} {
		for _, name := range []string{"bootstrap", "reaper", "poolmetric"} {
			z, err := zip.OpenReader(dist(t, "assets", "nodelease-function-"+name+"-"+arch+".zip"))
			if err != nil {
				t.Fatal(err)
			}
			if len(z.File) != 1 || z.File[0].Name != "bootstrap" {
				t.Fatalf("%s %s: %d files", name, arch, len(z.File))
			}
			f, err := z.File[0].Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			program, err := elf.NewFile(bytes.NewReader(text))
			if err != nil || program.Machine != machine {
				t.Errorf("%s %s: %v, %v", name, arch, program, err)
			}
			if err := z.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A user unpacks the archive of this machine. The program prints its version, commit and date, and leases a node ID.
func TestArchiveOfThisMachine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the archives are unpacked where releases are built")
	}
	dir := t.TempDir()
	untar(t, dir, read(t, one(t, dist(t, "release", "nodelease_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"))))
	for _, file := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		if len(read(t, filepath.Join(dir, file))) == 0 {
			t.Errorf("%s is empty", file)
		}
	}
	program := filepath.Join(dir, "nodelease")
	says := string(output(t, exec.CommandContext(t.Context(), program, "--version")))
	head := strings.TrimSpace(string(output(t, exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD"))))
	if git, err := os.Stat("../.git"); err == nil && !git.IsDir() {
		t.Log("NOT TESTED: the version, since Go records no commit in a linked worktree of git; in a clone it does")
	} else if !regexp.MustCompile(`^nodelease v\S+ from commit ` + head + ` of \d{4}-\d\d-\d\dT\S+Z, go`).MatchString(says) {
		t.Errorf("--version says %q; HEAD is %s", says, head)
	}
	endpoint := serveDynamoDB(t, program)
	to := []string{"--endpoint", endpoint, "--table", "leases", "--pool", "orders"}
	output(t, exec.CommandContext(t.Context(), program, append([]string{"seed", "--size", "4"}, to...)...))
	got := output(t, exec.CommandContext(t.Context(), program, append(append([]string{"exec"}, to...), "--", "sh", "-c", "echo $NODELEASE_NODE_ID")...))
	if !regexp.MustCompile(`^[0-3]\n$`).Match(got) {
		t.Errorf("a program under exec has the node ID %q, want 0 to 3", got)
	}
}

// serveDynamoDB starts the program's embedded DynamoDB with a table, until the test ends, and returns its endpoint.
func serveDynamoDB(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "dynamodb", "--listen", "127.0.0.1:0", "--table", "leases", "--json")
	out := start(t, cmd)
	var serving struct{ Endpoint string }
	if err := json.Unmarshal([]byte(out()), &serving); err != nil || serving.Endpoint == "" {
		t.Fatalf("%+v, %v", serving, err)
	}
	return serving.Endpoint
}

// start starts a program that runs until the test ends. Each call of line returns the
// next line of the program's output.
func start(t *testing.T, cmd *exec.Cmd) (line func() string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%v: %s", cmd.Args, said.String())
		}
	})
	lines := bufio.NewReader(out)
	return func() string {
		text, err := lines.ReadString('\n')
		if err != nil {
			t.Errorf("%v: no line: %v", cmd.Args, err)
		}
		return text
	}
}

func output(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v, %s%s", cmd.Args, err, out, said.String())
	}
	return out
}

// untar unpacks a compressed or a plain archive.
func untar(t *testing.T, dir string, archive []byte) {
	t.Helper()
	var in io.Reader = bytes.NewReader(archive)
	if unzipped, err := gzip.NewReader(bytes.NewReader(archive)); err == nil {
		in = unzipped
	}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if !filepath.IsLocal(filepath.FromSlash(h.Name)) {
			t.Fatalf("%q leads outside the archive", h.Name)
		}
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
		}
		if err == nil {
			err = os.Chmod(path, h.FileInfo().Mode()) // whatever the umask
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
