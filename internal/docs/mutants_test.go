package docs

import (
	"os/exec"
	"regexp"
	"strings"
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

// make test skips tests that make proof runs, but none that notices a mutant.
func TestSlowTestsNoticeNoMutant(t *testing.T) {
	list := regexp.MustCompile(`(?m)^slow='(.*)'$`).FindStringSubmatch(read(t, "scripts/test.sh"))
	if list == nil {
		t.Fatal("scripts/test.sh: got no list of slow tests")
	}
	page := read(t, "docs/mutants.md")
	for name := range strings.SplitSeq(list[1], "|") {
		if regexp.MustCompile(`\b` + name + `\b`).MatchString(page) {
			t.Errorf("%s is in docs/mutants.md: take it from the slow tests of scripts/test.sh, so that make test runs it", name)
		}
	}
}
