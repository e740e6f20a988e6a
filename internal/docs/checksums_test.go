package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/sources"
)

// A download is not run if its bytes are not those that the repository names.
func TestChecksums(t *testing.T) {
	sources.Of(t, root+"/scripts")
	dir, list := t.TempDir(), filepath.Join(t.TempDir(), "SHA256SUMS")
	write := func(file, content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(list, "0000000000000000000000000000000000000000000000000000000000000000  other.jar\nSUM  one.jar\n")
	var suffix []string
	check := func(want string) {
		t.Helper()
		out, err := exec.Command("bash", append([]string{filepath.Join(root, "scripts/checksums.sh"), list, dir}, suffix...)...).CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("got %v, %s, want %q", err, out, want)
		}
	}
	check("is empty")
	write(filepath.Join(dir, "one.jar"), "a jar")
	check("is not in " + list)
	sum, err := exec.Command("sha256sum", filepath.Join(dir, "one.jar")).Output()
	if err != nil {
		t.Fatal(err)
	}
	write(list, strings.Fields(string(sum))[0]+"  one.jar\n")
	check("")
	write(filepath.Join(dir, "one.jar"), "a Jar")
	check("is not in " + list)
	write(filepath.Join(dir, "one.jar"), "a jar")
	write(filepath.Join(dir, "two.jar"), "")
	check("two.jar has the checksum")
	// In a tree, only the files with a suffix are checked.
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	suffix = []string{".jar"}
	write(filepath.Join(dir, "two.jar"), "a jar")
	write(filepath.Join(dir, "notes.txt"), "whatever")
	write(list, strings.Fields(string(sum))[0]+"  one.jar\n"+strings.Fields(string(sum))[0]+"  two.jar\n")
	check("")
	write(filepath.Join(dir, "a", "b", "three.jar"), "a jar")
	check("a/b/three.jar has the checksum")
	for _, script := range []string{"scripts/dynamodb-local.sh", "scripts/postgres.sh", "localstack/install.sh", "clients/test.sh", "clients/bench/run.sh"} {
		if !strings.Contains(read(t, script), "checksums.sh") {
			t.Errorf("%s downloads without a checksum", script)
		}
	}
}
