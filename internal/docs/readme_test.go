// Package docs has no code: its tests compare the documentation with the code.
package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/sources"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README's Go block is, line for line, in a program that runs.
func TestREADMEGoBlockRuns(t *testing.T) {
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	if block == nil {
		t.Fatal("the README has no Go block")
	}
	program := read(t, "examples/quickstart/main.go")
	at := 0
	for line := range strings.Lines(block[1]) {
		i := strings.Index(program[at:], strings.TrimSpace(line))
		if i < 0 {
			t.Fatalf("%q is not in examples/quickstart, or out of order", line)
		}
		at += i
	}

	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 4}); err != nil {
		t.Fatal(err)
	}
	sources.Of(t, root)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./examples/quickstart")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "NODELEASE_TABLE="+table, "NODELEASE_POOL=orders", "AWS_ENDPOINT_URL_DYNAMODB="+*client.Options().BaseEndpoint)
	out, err := cmd.Output()
	if err != nil || !regexp.MustCompile(`^[0-3] [0-9]{15,}\n$`).Match(out) {
		t.Errorf("%q, %v", out, err)
	}
}
