package docs

import (
	"os/exec"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/sources"
)

// All mutants can be made of the current code.
func TestMutantsAreUpToDate(t *testing.T) {
	sources.Of(t, root)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./proof/cmd/mutants", "-check")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
