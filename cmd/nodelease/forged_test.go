package main

import (
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// The commands that compare items with what the reaper saw before show what someone else has
// written, as the reaper function reports it.
func TestForgedItemsAreShown(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 4)
	w.put(map[string]any{"pool_group": "orders#reaper", "node_id": 1, "watermarks": "1.3.1"})   // node 1 had version 3, and has 0
	w.put(map[string]any{"pool_group": "orders#reaper", "node_id": -1, "watermarks": "99 0 0"}) // the pool had revision 99
	for _, words := range []string{"stats", "reap --dry-run", "reap --no-wait --yes", "stats"} {
		code, stdout, stderr := call(append(strings.Fields(words), "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")...)
		for _, want := range []string{
			"something other than Nodelease wrote the pool's own item: revision went back from 99", "something other than Nodelease wrote node 1: version went back",
			"To see what to do about it: nodelease doctor --table " + w.table + " --pool orders",
		} {
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%s: exit code %d, %q, %q, want %q", words, code, stdout, stderr, want)
			}
		}
	}
}
