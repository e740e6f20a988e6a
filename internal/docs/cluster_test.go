package docs

import (
	"regexp"
	"strings"
	"testing"
)

// The README's block about clusters stands, line for line, in an example that is tested.
func TestREADMEClusterBlock(t *testing.T) {
	block := regexp.MustCompile("(?s)## Who is alive, who leads\n.*?```go\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	if block == nil {
		t.Fatal("the README has no such block")
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
