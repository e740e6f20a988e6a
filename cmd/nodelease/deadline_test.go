package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// An exec that another exec has started does not write the deadline of its own lease into the
// file of the other's, whose program would take it for its own.
func TestDeadlineFileOfAnotherExec(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 2)
	file := filepath.Join(t.TempDir(), "deadline")
	const outer = `{"state":"held","node_id":3}` + "\n"
	if err := os.WriteFile(file, []byte(outer), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]int{"": codeExec + codeUsage, "--deadline-file=" + file + ".own": 0} {
		args := append([]string{"exec", "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders"}, strings.Fields(flag)...)
		cmd := self(append(args, "--", "true")...)
		cmd.Env = append(os.Environ(), deadlineVariable+"="+file, "NODELEASE_NODE_ID=3", "NODELEASE_VERSION=1", "NODELEASE_POOL=brokers")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		launch(t, cmd)
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want || want != 0 && !(strings.Contains(stderr.String(), file) && strings.Contains(stderr.String(), "--deadline-file")) {
			t.Errorf("with %q: exit code %d, %q, want %d, and with an error the file and a remedy", flag, got, stderr.String(), want)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != outer {
			t.Errorf("with %q: the file has %q, %v, want it as it was", flag, got, err)
		}
	}
}
