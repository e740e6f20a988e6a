package docs

import (
	"os/exec"
	"testing"
)

// The mutants can all be made of the code as it is.
func TestMutantsAreUpToDate(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "run", "./proof/cmd/mutants", "-check")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
