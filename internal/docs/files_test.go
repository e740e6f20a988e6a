package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The repository has no compiled program, such as one that `go build` leaves in its folder:
// whoever clones the repository would download it with each of its versions.
func TestNoProgramIsCommitted(t *testing.T) {
	eachFile(t, func(name string, text []byte) {
		for _, magic := range []string{"\x7fELF", "MZ\x90\x00", "\xcf\xfa\xed\xfe"} { // Linux, Windows, macOS
			if bytes.HasPrefix(text, []byte(magic)) {
				t.Errorf("%s is a compiled program: delete it", name)
			}
		}
	})
}

// A Go file fits a reader's head, and so do the two packages that everybody reads first. A
// file or a package that becomes too large has a second subject, which gets a place of its
// own. Nothing is put together to meet a count.
func TestFilesAndPackagesStaySmall(t *testing.T) {
	files := map[string]int{}
	eachFile(t, func(name string, text []byte) {
		if filepath.Ext(name) != ".go" {
			return
		}
		files[filepath.Dir(name)]++
		most := 400
		if strings.HasSuffix(name, "_test.go") {
			most = 600
		}
		if n := bytes.Count(text, []byte("\n")); n > most {
			t.Errorf("%s: got %d lines, want at most %d", name, n, most)
		}
	})
	for pkg, most := range map[string]int{"pkg/lease": 40, "pkg/snowflake": 30} {
		if files[pkg] > most {
			t.Errorf("%s: got %d Go files with its tests, want at most %d", pkg, files[pkg], most)
		}
	}
}

// eachFile calls do with each file of the repository, and its text.
func eachFile(t *testing.T, do func(name string, text []byte)) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skipf("NOT TESTED: the files of the repository, which takes a git checkout: %v", err)
	}
	for f := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			continue // removed and not yet committed
		}
		do(f, text)
	}
}
