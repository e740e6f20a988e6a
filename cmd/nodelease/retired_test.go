package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// A retired node ID may still have a holder. A raise counts it before it ends its lease, and
// a release does not announce that others can claim it.
func TestRetiredNodeIDThatIsHeld(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 4)
	w.put(number(3, time.Now().Add(time.Hour), nil))
	for _, c := range []struct{ args, want string }{
		{"resize --size 2 --yes", "1 node ID is retired and still held"},
		{"raise --dry-run", "1 node ID is held. Stop the fleet first"},
		{"release 3 --version 3 --yes", "node 3 was released; it is retired, so no process can claim it"},
	} {
		code, stdout, stderr := call(append(strings.Fields(c.args), "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")...)
		if code != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: got exit code %d, %s%s, want %q", c.args, code, stdout, stderr, c.want)
		}
	}
}
