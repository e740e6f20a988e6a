// Package clustertest has the suite that every [cluster.Coordinator] passes.
package clustertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// Backend is a coordinator under test.
type Backend struct {
	cluster.Coordinator
	// Age makes every heartbeat that was recorded look older, so that no test has to wait.
	Age func(t *testing.T, by time.Duration)
}

const timeout = 15 * time.Second

// Conformance is what every coordinator passes. open gives an empty one, and is called once a case.
func Conformance(t *testing.T, open func(t *testing.T) Backend) {
	for name, run := range map[string]func(t *testing.T, b Backend){
		"members see each other":            seeEachOther,
		"clusters are apart":                clustersAreApart,
		"silence ends a membership":         silence,
		"a new session replaces the old":    newSession,
		"expire forgets the silent":         expire,
		"known versions":                    known,
		"many at once":                      manyAtOnce,
		"a canceled heartbeat is an error":  canceled,
		"an observer's time-out is its own": ownTimeout,
	} {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
}

// node is a member without a lease.
func node(clusterName, name string) cluster.Member {
	return cluster.Member{
		Cluster: clusterName, NodeID: name, Number: cluster.NoNumber, SessionID: uuid.Must(uuid.NewV7()).String(),
		Metadata: map[string]string{"zone": "a", "address": name + ":80"},
	}
}

// beat lets a member heartbeat, and gives what it saw, by node ID.
func beat(t *testing.T, b Backend, m cluster.Member) map[string]cluster.Member {
	t.Helper()
	members, err := b.Heartbeat(t.Context(), cluster.Beat{Self: m, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]cluster.Member{}
	for _, m := range members {
		if _, twice := seen[m.NodeID]; twice {
			t.Fatalf("%s is there twice: %+v", m.NodeID, members)
		}
		seen[m.NodeID] = m
	}
	return seen
}

func names(seen map[string]cluster.Member) string {
	return strings.Join(slices.Sorted(maps.Keys(seen)), " ")
}

func seeEachOther(t *testing.T, b Backend) {
	a, c := node("c", "a"), node("c", "c")
	if seen := beat(t, b, a); names(seen) != "a" {
		t.Fatalf("the first sees %q", names(seen))
	}
	beat(t, b, c)
	got := beat(t, b, a)["c"]
	if age := time.Since(got.Heartbeat).Abs(); age > timeout {
		t.Errorf("its heartbeat was %v ago", age)
	}
	got.Heartbeat = time.Time{}
	if want := c; !got.Same(want) || got.NodeID != want.NodeID || got.Number != want.Number || got.Version != 1 || !maps.Equal(got.Metadata, want.Metadata) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func clustersAreApart(t *testing.T, b Backend) {
	beat(t, b, node("one", "a"))
	if seen := beat(t, b, node("two", "b")); names(seen) != "b" {
		t.Errorf("the other cluster sees %q", names(seen))
	}
}

func silence(t *testing.T, b Backend) {
	a, c := node("c", "a"), node("c", "c")
	beat(t, b, a)
	b.Age(t, timeout/2)
	if seen := beat(t, b, c); names(seen) != "a c" {
		t.Errorf("inside of the time-out: %q", names(seen))
	}
	b.Age(t, timeout/2+time.Second)
	if seen := beat(t, b, c); names(seen) != "c" {
		t.Errorf("after the time-out: %q", names(seen))
	}
	beat(t, b, a)
	if seen := beat(t, b, c); names(seen) != "a c" || !seen["a"].Same(a) {
		t.Errorf("after it came back: %+v", seen)
	}
}

func newSession(t *testing.T, b Backend) {
	first, second := node("c", "a"), node("c", "a")
	for _, step := range []struct {
		m       cluster.Member
		version int64
	}{{first, 1}, {first, 1}, {second, 2}, {second, 2}} {
		if got := beat(t, b, step.m)["a"]; !got.Same(step.m) || got.Version != step.version {
			t.Errorf("got %+v, want version %d of %+v", got, step.version, step.m)
		}
	}
}

func expire(t *testing.T, b Backend) {
	beat(t, b, node("c", "a"))
	b.Age(t, 10*timeout)
	c := node("c", "c")
	beat(t, b, c)
	if err := b.Expire(t.Context(), "c", 5*timeout); err != nil {
		t.Fatal(err)
	}
	members, err := b.Heartbeat(t.Context(), cluster.Beat{Self: c, Timeout: 1000 * timeout})
	if err != nil || len(members) != 1 || !members[0].Same(c) {
		t.Errorf("%+v, %v", members, err)
	}
}

func known(t *testing.T, b Backend) {
	a, c := node("c", "a"), node("c", "c")
	numbered := cluster.Member{Cluster: "c", NodeID: "n", Number: 7, SessionID: "s", Version: 3}
	if all, err := b.Known(t.Context(), "c"); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	want := map[string]cluster.Versions{
		"@a": {"@a": 1, "@c": 2}, "@c": {"@c": 2, "7": 3}, "7": {"7": 3},
	}
	for _, p := range []struct {
		m     cluster.Member
		known cluster.Versions
	}{{a, cluster.Versions{"@old": 9}}, {a, want["@a"]}, {c, want["@c"]}, {numbered, want["7"]}, {node("other", "a"), cluster.Versions{"@a": 5}}} {
		if err := b.Publish(t.Context(), p.m, p.known); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.Known(t.Context(), "c")
	if err != nil || !maps.EqualFunc(all, want, maps.Equal[cluster.Versions]) {
		t.Errorf("%v, %v", all, err)
	}
}

func manyAtOnce(t *testing.T, b Backend) {
	var wg sync.WaitGroup
	for i := range 16 {
		m := node("c", fmt.Sprint("node ", i))
		wg.Go(func() {
			for range 3 {
				members, err := b.Heartbeat(t.Context(), cluster.Beat{Self: m, Timeout: timeout})
				if err != nil || !slices.ContainsFunc(members, m.Same) {
					t.Errorf("%s is not among %d members, %v", m.NodeID, len(members), err)
				}
			}
		})
	}
	wg.Wait()
	if seen := beat(t, b, node("c", "last")); len(seen) != 17 {
		t.Errorf("%d members: %s", len(seen), names(seen))
	}
}

func canceled(t *testing.T, b Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if members, err := b.Heartbeat(ctx, cluster.Beat{Self: node("c", "a"), Timeout: timeout}); err == nil {
		t.Errorf("no error, %+v", members)
	}
}

func ownTimeout(t *testing.T, b Backend) {
	beat(t, b, node("c", "a"))
	b.Age(t, 2*timeout)
	members, err := b.Heartbeat(t.Context(), cluster.Beat{Self: node("c", "c"), Timeout: 3 * timeout})
	if err != nil || len(members) != 2 {
		t.Errorf("%+v, %v", members, err)
	}
}
