package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/metrics.md lists each line that clusters and service discovery log.
func TestLogLines(t *testing.T) {
	page := read(t, "docs/metrics.md")
	logged := regexp.MustCompile(`Logger\.(?:Debug|Info|Warn|Error)\("([^"]+)"`)
	found := 0
	for _, dir := range []string{"pkg/cluster", "pkg/cluster/*coordinator", "pkg/discovery"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range logged.FindAllStringSubmatch(string(source), -1) {
				if found++; !strings.Contains(page, "| `"+line[1]+"` |") {
					t.Errorf("docs/metrics.md lacks the log line %q of %s", line[1], file)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d log lines: does the pattern still match?", found)
	}
}

// The README's block about clusters is, line for line, in a tested example.
func TestREADMEClusterBlock(t *testing.T) {
	block := regexp.MustCompile("(?s)## Who is alive, who leads\n.*?```go\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	if block == nil {
		t.Fatal("the README has no Go block in that section")
	}
	program := read(t, "examples/cluster/main.go")
	for line := range strings.Lines(block[1]) {
		_, after, found := strings.Cut(program, strings.TrimSpace(line))
		if !found {
			t.Fatalf("%q is not in examples/cluster, or in another order", line)
		}
		program = after
	}
}
