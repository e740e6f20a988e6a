package snowflake_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The package imports the standard library and nothing else: whoever wants IDs
// with a fixed number downloads no SDK.
func TestImportsTheStandardLibraryOnly(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); len(got) != 1 || !strings.HasSuffix(got[0], "/pkg/snowflake") {
		t.Errorf("depends on %q", got)
	}
}
