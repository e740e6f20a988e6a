package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/discovery/discoverytest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// asked returns the answer to a request of the page.
func asked[T any](t *testing.T, s *Server, path string) (m T) {
	t.Helper()
	res := get(s, http.MethodGet, path, "127.0.0.1:4711")
	if err := json.NewDecoder(res.Body).Decode(&m); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v, want StatusCode OK", path, res.StatusCode, err)
	}
	return m
}

// The page receives only the last characters of each session in an item.
func TestSessionsAreWithheld(t *testing.T) {
	sessions := []string{uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String()}
	now := time.Now()
	for name, l := range map[string]lease.Lease{
		"held":     {Holder: sessions[0], ExpiresAt: now.Add(time.Hour), Previous: &lease.Previous{Session: sessions[1]}, Metadata: map[string]string{"node": "a", "session_id": sessions[2]}},
		"taken":    {Holder: sessions[0], ExpiresAt: now.Add(time.Hour), TakenFrom: sessions[1], Metadata: map[string]string{"session_id": sessions[2]}},
		"released": {Previous: &lease.Previous{Session: sessions[1]}, TakenFrom: sessions[0]},
	} {
		n := show(l, protocol.PoolItem{Size: 8}, now)
		sent := []any{n, &n}
		if n.member != nil {
			sent = append(sent, shownMember(&n, *n.member))
		}
		body, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		for i, session := range sessions {
			if strings.Contains(string(body), session) {
				t.Errorf("%s: session %d is in %s", name, i, body)
			}
		}
		if name == "held" && (!strings.Contains(string(body), sessions[0][28:]) || !strings.Contains(string(body), sessions[2][28:])) {
			t.Errorf("%s: the ends of the sessions are missing in %s", name, body)
		}
	}
}

// The page lists the services, keys and instances that live processes have registered. No
// answer contains a session.
func TestServices(t *testing.T) {
	store := leasetest.NewMemory("orders", 8)
	directory, err := discovery.New(discovery.Config{Pool: "orders", Store: discoverytest.NewMemory(store)})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := lease.Start(t.Context(), lease.Config{Pool: "orders", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	l, err := agent.Lease()
	if err != nil {
		t.Fatal(err)
	}
	at := discovery.Address{Host: "10.0.0.1", Port: 8080, Zone: "a"}
	offers := []discovery.Offer{discovery.Service{Name: "stock", Address: at}, discovery.Endpoint{Name: "shard", Address: at}, discovery.Endpoint{Name: "shard", Key: "7", Address: at}}
	if err := directory.Register(t.Context(), agent, offers...); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Source: store, Pool: "orders", Every: time.Second, Directory: directory})
	if m := asked[servicesMessage](t, s, "/services"); len(m.Services) != 1 || m.Services[0].Name != "stock" || len(m.Services[0].Endpoints) != 1 || m.Problem != "" {
		t.Errorf("services: got %+v, want stock with one endpoint", m)
	}
	if m := asked[servicesMessage](t, s, "/services?endpoint=shard"); len(m.Keys) != 2 || m.Keys[0] != "" || m.Keys[1] != "7" {
		t.Errorf("keys: got %+v, want the empty one and 7", m)
	}
	want := instance{ID: l.NodeID, Version: l.Version, Address: "10.0.0.1:8080", Zone: "a", Weight: 1}
	for _, path := range []string{"/services?service=stock", "/services?endpoint=shard&key=7", "/services?endpoint=shard&key="} {
		m := asked[servicesMessage](t, s, path)
		if len(m.Instances) != 1 || fmt.Sprint(m.Instances[0].ID, m.Instances[0].Version, m.Instances[0].Address, m.Instances[0].Zone, m.Instances[0].Weight) != fmt.Sprint(want.ID, want.Version, want.Address, want.Zone, want.Weight) {
			t.Errorf("%s: %+v, want %+v", path, m, want)
		}
	}
	if m := asked[servicesMessage](t, s, "/services?q=nothing"); m.Total != 0 || m.Pages != 1 {
		t.Errorf("nothing: got %+v, want Total 0 and Pages 1", m)
	}
	for _, path := range []string{"/services?service=a%20b", "/services?endpoint=" + "%1b%5B2J", "/services?endpoint=x&key=a%20b"} {
		if m := asked[servicesMessage](t, s, path); m.Problem == "" || m.Total != 0 {
			t.Errorf("%s: %+v, want a problem", path, m)
		}
	}
	if m := asked[servicesMessage](t, New(Options{Pool: "orders"}), "/services"); m.Problem == "" {
		t.Error("without a directory: no problem")
	}
	// The number of remembered answers is bounded.
	for i := range 3 * mostLookups {
		asked[servicesMessage](t, s, fmt.Sprintf("/services?endpoint=shard&key=%d", i))
	}
	if n := len(s.lookups.known); n > mostLookups {
		t.Errorf("%d places are remembered, want at most %d", n, mostLookups)
	}
}

// While no page is open, the pool is read once per idle interval, and the events are kept
// for the next page.
func TestHistoryWhileNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := startedWith(t, 12, Options{Every: time.Second, Idle: 30 * time.Second})
		time.Sleep(time.Minute) // virtual
		store.read()
		time.Sleep(time.Hour) // virtual
		if got := len(store.read()); got < 119 || got > 121 {
			t.Errorf("%d reads in an idle hour, want 120", got)
		}
		store.claim(t, 7, "by night", time.Hour)
		time.Sleep(time.Minute) // virtual
		p := s.open(-1)
		defer s.close(p)
		all := next[allMessage](t, p, "all")
		if len(all.News) != 1 || all.News[0].Kind != "claimed" || all.News[0].NodeID != 7 {
			t.Errorf("got %+v, want the claim of 7", all.News)
		}
		claimed := 0
		for i, n := range all.History.Claimed {
			if n == nil {
				t.Fatalf("point %d is a gap, want none", i)
			}
			claimed += *n
		}
		if claimed != 1 || len(all.History.At) < 120 {
			t.Errorf("%d claimed in %d points, want 1 in 120 or more", claimed, len(all.History.At))
		}
	})
}

// The history keeps a day of turns of two seconds, with all changes of holders and the
// highest use, in a bounded number of points.
func TestHistoryIsBounded(t *testing.T) {
	var h history
	at := time.Unix(1_800_000_000, 0)
	pushed := 0
	for i := range 2 * 24 * 1800 { // two days
		used, claimed, ended := float64(i%50), 1, 2
		at = at.Add(2 * time.Second)
		if i%5000 == 4999 {
			h.gap(at)
		}
		h.push(at, &used, &claimed, &ended)
		pushed++
		if len(h.At) > mostPoints {
			t.Fatalf("%d points, want at most %d", len(h.At), mostPoints)
		}
	}
	h.thin()
	first := time.UnixMilli(h.At[0])
	if age := at.Sub(first); age < keptFor-2*time.Minute || age > keptFor {
		t.Errorf("the oldest point is %v old, want about %v", age, keptFor)
	}
	claimed, ended, most := 0, 0, 0.0
	for i := range h.At {
		if i > 0 && h.At[i] <= h.At[i-1] {
			t.Fatalf("point %d is at %d, the one before at %d", i, h.At[i], h.At[i-1])
		}
		if h.Used[i] != nil {
			claimed, ended, most = claimed+*h.Claimed[i], ended+*h.Ended[i], max(most, *h.Used[i])
		}
	}
	if want := 24 * 1800; claimed < want-60 || claimed > want+60 || ended != 2*claimed || most != 49 {
		t.Errorf("%d claimed, %d ended, at most %v used; want about %d, twice that, and 49", claimed, ended, most, want)
	}
}

// The clock of this machine is an hour ahead for a while. The history then has no points of
// the future, which would be in the chart and in the projection for a day.
func TestHistoryAfterTheClockWasSetBack(t *testing.T) {
	var h history
	at := time.Unix(1_800_000_000, 0)
	push := func(used float64) {
		at = at.Add(2 * time.Second)
		zero := 0
		h.push(at, &used, &zero, &zero)
	}
	at = at.Add(time.Hour)
	for i := range 20 {
		push(float64(90 - i))
	}
	at = at.Add(-time.Hour - 30*time.Second)
	for i := range leastFit {
		push(float64(10 + i))
	}
	for i := range h.At {
		if i > 0 && h.At[i] <= h.At[i-1] {
			t.Errorf("point %d is at %d, the one before at %d", i, h.At[i], h.At[i-1])
		}
	}
	if got := h.fullIn().Round(time.Second); got != 162*time.Second {
		t.Errorf("full in %v, want 2m42s", got)
	}
}

// A search of the history matches the node ID, the task and the kind.
func TestFindInHistory(t *testing.T) {
	l := log{{1, 7, "claimed", "api/7, v1"}, {2, 77, "claimed", "api/77, v1"}, {3, 7, "expired", "api/7 stopped renewing"}, {4, -1, "full", "Full: all 7 node IDs are taken"}}
	for query, want := range map[string]int{"": 4, "7": 2, "node=7": 2, "node=77": 1, "kind=expired": 1, "expired": 1, "task=api": 3, "task=api/7 kind=claimed": 2, "claimed api/77": 1, `"stopped renewing"`: 1, "full": 1, "kind=api": 0} {
		if found, total := l.find(query, 10); total != want || len(found) != want {
			t.Errorf("%q: %d found, want %d", query, total, want)
		}
	}
}
