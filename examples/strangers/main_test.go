//go:build linux

package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
)

// TestStrangers checks the statements that do not depend on the speed of the machine. To
// check all statements, run: go run ./examples/strangers.
func TestStrangers(t *testing.T) {
	db, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(db)
	t.Cleanup(server.Close)
	client, err := lease.OpenClient(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, some := range []topic{
		{zeebeBootstrap, "Z1 Z2 Z3 Z4 Z5"}, {zeebeHandover, "Z6 Z7 Z8 Z9 Z10"}, {zeebeScale, "Z27"}, {zeebeCorrupt, "Z28"}, {etcdUnique, "S1 S2 S3"},
		{microNumbers, "M1 M2 M3"}, {practicePool, "P6 P7"},
	} {
		t.Run(some.ids, func(t *testing.T) {
			t.Parallel()
			w := &world{endpoint: server.URL, table: dynamotest.CreateTable(t, client), run: "t", client: client, verdicts: map[string]string{}}
			if err := some.run(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			for _, id := range strings.Fields(some.ids) {
				if v := w.verdicts[id]; v != "seen" && !strings.HasPrefix(v, "they do") {
					t.Errorf("%s: got %q, want seen, or a deliberate difference", id, v)
				}
			}
		})
	}
}
