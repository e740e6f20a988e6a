package docs

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/sources"
)

// All mutants can be made from the current code.
func TestMutantsAreUpToDate(t *testing.T) {
	sources.Of(t, root)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./proof/cmd/mutants", "-check")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// make test skips tests that make proof runs, but it skips no test that notices
// a mutant.
func TestSlowTestsNoticeNoMutant(t *testing.T) {
	lists := regexp.MustCompile(`(?m)^(?:slow|elsewhere)='(.*)'$`).FindAllStringSubmatch(read(t, "scripts/test.sh"), -1)
	if len(lists) != 2 {
		t.Fatalf("scripts/test.sh: got %d lists of tests that make test skips, want slow and elsewhere", len(lists))
	}
	page := read(t, "docs/mutants.md")
	for _, list := range lists {
		for name := range strings.SplitSeq(list[1], "|") {
			if regexp.MustCompile(`\b` + name + `\b`).MatchString(page) {
				t.Errorf("%s is in docs/mutants.md: take it from the list in scripts/test.sh, so that make test runs it", name)
			}
		}
	}
}
