package main

import (
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/dynamotest"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
)

// What a process that is gone had registered is cleared, as by the function; a
// dry run changes nothing.
func TestReapClearsEntries(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 2)
	store := lease.NewDynamoDB(w, w.table)
	directory, err := discovery.New(discovery.Config{Pool: "orders", Store: discovery.NewTable(w, w.table)})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := lease.Start(t.Context(), lease.Config{Store: store, Pool: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	here := discovery.Address{Host: "10.0.0.7"}
	if err := directory.Register(t.Context(), agent, discovery.Service{Name: "orders", Address: here}, discovery.Endpoint{Name: "shard", Address: here}); err != nil {
		t.Fatal(err)
	}
	none := "0 numbers held, 0 due, 0 freed\n"
	for _, step := range []struct{ args, want string }{
		{"reap", "1 numbers held, 0 due, 0 freed\n"},
		{"reap --dry-run", none},
		{"reap --dry-run --json", `"cleared":0`},
		{"reap", none + "2 entries of services cleared, whose process is gone\n"},
		{"reap", none},
		{"reap --json", `"cleared":0`},
	} {
		words := append(strings.Fields(step.args), "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")
		code, stdout, stderr := call(words...)
		if code != 0 || stdout != step.want && !(strings.Contains(step.args, "json") && strings.Contains(stdout, step.want)) {
			t.Errorf("%s: exit code %d, %q, want %q; %s", step.args, code, stdout, step.want, stderr)
		}
		_ = agent.Close()
	}
}
