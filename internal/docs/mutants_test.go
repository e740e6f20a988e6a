package docs

import (
	"os/exec"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/sources"
)

// The mutants can all be made of the code as it is.
func TestMutantsAreUpToDate(t *testing.T) {
	sources.Of(t, root)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./proof/cmd/mutants", "-check")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
