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
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skipf("NOT TESTED: the files of the repository, which takes a git checkout: %v", err)
	}
	for f := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		file, err := os.Open(filepath.Join(root, f))
		if err != nil {
			continue // removed and not yet committed
		}
		head := make([]byte, 4)
		_, _ = file.Read(head)
		if err := file.Close(); err != nil {
			t.Error(err)
		}
		for _, magic := range []string{"\x7fELF", "MZ\x90\x00", "\xcf\xfa\xed\xfe"} { // Linux, Windows, macOS
			if bytes.Equal(head, []byte(magic)) {
				t.Errorf("%s is a compiled program: delete it", f)
			}
		}
	}
}
