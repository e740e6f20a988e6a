package docs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// baselines are the contracts of docs/compatibility.md as files that tests compare with the code.
var baselines = map[string]string{
	"Go API":      "api/*.txt",
	"sidecar":     "api/openapi.yaml",
	"--help":      "cmd/nodelease/testdata/help.golden",
	"--json":      "cmd/nodelease/testdata/json/*.json",
	"item format": "internal/protocol/testdata/format-*/*.json",
}

// digest returns the digest of a baseline's files and their names.
func digest(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	slices.Sort(files)
	sum := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(file), len(text), text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:12]
}

// missing returns the line that a changelog lacks for a baseline; empty if the changelog
// has that line. A line names the baseline, its digest and, in some words, the change.
func missing(changelog, name, digest string) string {
	line := fmt.Sprintf("- %s `%s`: ", name, digest)
	if regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `\S.{8,}$`).MatchString(changelog) {
		return ""
	}
	return line
}

// A baseline does not change in silence: the changelog has a line for each state of it that was merged.
func TestBaselinesInChangelog(t *testing.T) {
	changelog, page := read(t, "CHANGELOG.md"), read(t, "docs/compatibility.md")
	for name, pattern := range baselines {
		if line := missing(changelog, name, digest(t, pattern)); line != "" {
			t.Errorf("%s is new or has changed: add a line under \"### Contracts\" of CHANGELOG.md: %sthe change, and the remedy for users", pattern, line)
		}
		if !strings.Contains(page, "`"+pattern+"`") {
			t.Errorf("docs/compatibility.md does not name the baseline %s", pattern)
		}
	}
}

// A line with a different digest, or without words, is not enough.
func TestChangelogLineIsNeeded(t *testing.T) {
	const changelog = "## Unreleased\n\n- Go API `0123456789ab`: the first baseline.\n- --help `0123456789ab`: \n"
	for _, test := range []struct{ name, digest, want string }{
		{"Go API", "0123456789ab", ""},
		{"Go API", "ba9876543210", "- Go API `ba9876543210`: "},
		{"--help", "0123456789ab", "- --help `0123456789ab`: "},
		{"--json", "0123456789ab", "- --json `0123456789ab`: "},
	} {
		if got := missing(changelog, test.name, test.digest); got != test.want {
			t.Errorf("%s %s: got %q, want %q", test.name, test.digest, got, test.want)
		}
	}
}
