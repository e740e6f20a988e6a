package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// No output contains a full session from the table, be it of the holder, of the previous
// holder, or of a cluster node. Where sessions have to be distinguished, it contains their
// last eight characters.
func TestSessionsAreWithheld(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 8)
	var sessions []string
	session := func() string {
		sessions = append(sessions, uuid.Must(uuid.NewV7()).String())
		return sessions[len(sessions)-1]
	}
	now := time.Now()
	before := func() map[string]any { return map[string]any{"session": session(), "version": 2, "ended": "released"} }
	holder := session()
	member := map[string]any{"node": "a", "session_id": session()}
	w.put(number(1, now.Add(time.Hour), map[string]any{"holder": holder, "previous": before(), "metadata": member}))
	w.put(number(2, now.Add(-time.Hour), map[string]any{"holder": session(), "taken_from": session()}))
	w.put(map[string]any{"pool_group": "orders#0", "node_id": 3, "version": 3, "reserved_until": 1, "task": "t", "previous": before()})
	// Corrupt items, whose defects are shown.
	endless := number(4, now, map[string]any{"holder": session(), "taken_from": session()})
	delete(endless, "expires_at")
	w.put(endless)
	w.put(number(5, now, map[string]any{"holder": session(), "taken_from": session() + strings.Repeat("x", 64)}))
	past := before()
	past["version"] = -1
	w.put(number(6, now, map[string]any{"holder": session(), "previous": past}))
	w.put(map[string]any{"pool_group": "orders#svc#api", "node_id": 1, "version": 3, "revision": 1, "holder": holder, "addresses": map[string]any{"host": "10.0.0.1"}})
	w.put(map[string]any{"pool_group": "orders#registered", "node_id": 1, "version": 3, "revision": 1, "holder": holder, "places": []string{"svc#api", "ep#shard#7"}})
	w.put(map[string]any{"pool_group": "orders#ep#shard#7", "node_id": 1, "version": 3, "revision": 1, "holder": holder, "addresses": map[string]any{"host": "10.0.0.1"}})

	flags := []string{"--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders"}
	check := func(what, output string) {
		t.Helper()
		for i, s := range sessions {
			if strings.Contains(strings.ReplaceAll(output, "\n", ""), s) {
				t.Errorf("%s shows session %d: %s", what, i, output)
			}
		}
	}
	lines := append(reads[:len(reads):len(reads)], []struct{ args, typed string }{
		{"inspect 2 --json", ""}, {"inspect 3 --json", ""}, {"inspect 5 --json", ""}, {"list --metadata session_id", ""},
		{"resolve shard --key 7 --json", ""}, {"services --json", ""}, {"reap --dry-run --json", ""}, {"raise --dry-run --json", ""},
		{"resize --size 4 --dry-run --json", ""}, {"release 2 --version 3 --yes --json", ""}, {"release 1 --version 3 --yes", ""},
	}...)
	for _, line := range []string{"list -o wide", "inspect 1", "doctor"} {
		check(line+" on a terminal", onTerminal(t, 200, append(words(line), flags...)...))
	}
	end := holder[len(holder)-8:]
	for _, r := range lines {
		output := shown(r.args, r.typed, flags)
		check(r.args, output)
		switch r.args {
		case "list -o wide", "list -o csv", "list --json", "inspect 1", "inspect 1 --json", "resolve api --json":
			if !strings.Contains(output, end) {
				t.Errorf("%s does not have the end %s of the session: %s", r.args, end, output)
			}
		}
	}
}
