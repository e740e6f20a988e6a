// Package clustertest contains the test suite that every [cluster.Coordinator] must pass,
// and a Coordinator in memory.
package clustertest

import (
	"context"
	"errors"
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
	// Age makes every recorded heartbeat and publication look older by the given
	// duration, so that no test has to wait.
	Age func(t *testing.T, by time.Duration)
}

const timeout = 15 * time.Second

// Conformance runs the test suite that every coordinator passes. open returns an empty
// Backend, and is called once per case.
func Conformance(t *testing.T, open func(t *testing.T) Backend) {
	for name, run := range map[string]func(t *testing.T, b Backend){
		"members see each other":            seeEachOther,
		"clusters are separate":             clustersAreApart,
		"silence ends a membership":         silence,
		"each heartbeat counts":             eachCounts,
		"one leader after an expiry":        oneLeader,
		"no change is skipped":              changes,
		"versions grow":                     versionsGrow,
		"a new session replaces the old":    newSession,
		"expire forgets the silent":         expire,
		"known versions":                    known,
		"a late publication":                latePublication,
		"known versions are forgotten":      forgetKnown,
		"an older lease's heartbeat":        olderLease,
		"many members at once":              manyAtOnce,
		"a canceled heartbeat is an error":  canceled,
		"an observer's time-out is its own": ownTimeout,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			if b.Coordinator == nil || b.Age == nil {
				t.Fatal("clustertest: a Backend needs a Coordinator, and Age: without it every case would have to wait for real time-outs")
			}
			run(t, b)
		})
	}
}

// node is a member without a lease.
func node(clusterName, name string) cluster.Member {
	return cluster.Member{
		Cluster: clusterName, Name: name, NodeID: cluster.NoNodeID, SessionID: uuid.Must(uuid.NewV7()).String(),
		Metadata: map[string]string{"zone": "a", "address": name + ":80"},
	}
}

// beat sends a member's heartbeat and returns the members that it saw, by name.
func beat(t *testing.T, b Backend, m cluster.Member) map[string]cluster.Member {
	t.Helper()
	snap, err := b.Heartbeat(t.Context(), cluster.Beat{Self: m, At: time.Now(), Timeout: timeout})
	if err != nil || snap.Warning != nil {
		t.Fatal(err, snap.Warning)
	}
	seen := map[string]cluster.Member{}
	for _, m := range snap.Members {
		if _, twice := seen[m.Name]; twice {
			t.Fatalf("%s is a member twice: %+v", m.Name, snap.Members)
		}
		if m.Heartbeat.IsZero() {
			m.Heartbeat = snap.Heard
		}
		seen[m.Name] = m
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
	began := time.Now()
	beat(t, b, c)
	got := beat(t, b, a)["c"]
	// The recorded time may be a lower bound: one time-out before the answer.
	if age := time.Since(got.Heartbeat).Abs(); age > timeout+time.Since(began) {
		t.Errorf("its heartbeat was %v ago", age)
	}
	got.Heartbeat = time.Time{}
	if want := c; !got.Same(want) || got.Name != want.Name || got.NodeID != want.NodeID || got.Version != 1 || !maps.Equal(got.Metadata, want.Metadata) {
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
		t.Errorf("within the time-out: %q", names(seen))
	}
	b.Age(t, timeout/2+time.Second)
	if seen := beat(t, b, c); names(seen) != "c" {
		t.Errorf("after the time-out: %q", names(seen))
	}
	// Others have dropped the session and may have acted on its end, so the member must
	// come back with a new session.
	if _, err := b.Heartbeat(t.Context(), cluster.Beat{Self: a, At: time.Now(), Timeout: timeout}); !errors.Is(err, cluster.ErrDropped) {
		t.Errorf("the heartbeat of a dropped session: got %v, want ErrDropped", err)
	}
	if seen := beat(t, b, c); names(seen) != "c" {
		t.Errorf("after it was refused: %q, want c", names(seen))
	}
	again := node("c", "a")
	beat(t, b, again)
	if seen := beat(t, b, c); names(seen) != "a c" || !seen["a"].Same(again) {
		t.Errorf("after it came back: %+v", seen)
	}
}

func newSession(t *testing.T, b Backend) {
	first, second := node("c", "a"), node("c", "a")
	for _, step := range []struct {
		m       cluster.Member
		version int64
	}{{first, 1}, {first, 1}, {second, 2}, {second, 2}} {
		b.Age(t, time.Second) // a session begins later than the previous one's heartbeats
		if got := beat(t, b, step.m)["a"]; !got.Same(step.m) || got.Version != step.version {
			t.Errorf("got %+v, want version %d of %+v", got, step.version, step.m)
		}
	}
}

// A member stays for as long as it sends heartbeats, however long ago its session began.
func eachCounts(t *testing.T, b Backend) {
	a, c := node("c", "a"), node("c", "c")
	beat(t, b, a)
	for n := range 4 {
		b.Age(t, timeout/3*2)
		beat(t, b, a)
		if seen := beat(t, b, c); names(seen) != "a c" {
			t.Errorf("after heartbeat %d of a: %q", n+2, names(seen))
		}
	}
}

// After a member's session has expired, and the member has come back with a new one, all
// members choose the same leader, from the first heartbeat on.
func oneLeader(t *testing.T, b Backend) {
	a, c := node("c", "a"), node("c", "c")
	beat(t, b, a)
	b.Age(t, timeout/2)
	beat(t, b, c)
	b.Age(t, timeout/2+time.Second)
	again := node("c", "a")
	for _, m := range []cluster.Member{c, again, c, again} {
		beat := cluster.Beat{Self: m, At: time.Now(), Timeout: timeout}
		snap, err := b.Heartbeat(t.Context(), beat)
		if err != nil {
			t.Fatal(err)
		}
		if leader, ok := beat.Leader(snap); !ok || !leader.Same(c) {
			t.Errorf("%s takes %+v for the leader, want c: %+v", m.Name, leader, snap.Members)
		}
	}
}

// A member notices each change, also one that leaves the number of members or their names as
// they were. The members that it has received do not change.
func changes(t *testing.T, b Backend) {
	a, c := node("c", "a"), node("c", "c")
	beat(t, b, a)
	beat(t, b, c)
	look := func() cluster.Snapshot {
		t.Helper()
		snap, err := b.Heartbeat(t.Context(), cluster.Beat{Self: c, At: time.Now(), Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	before := look()
	kept := slices.Clone(before.Members)
	notices := func(what, want string, m cluster.Member) {
		t.Helper()
		after := look()
		seen := map[string]cluster.Member{}
		for _, m := range after.Members {
			seen[m.Name] = m
		}
		if names(seen) != want || !slices.ContainsFunc(after.Members, m.Same) {
			t.Errorf("after %s: %+v, want %s, and %+v", what, after.Members, want, m)
		}
		if !slices.EqualFunc(before.Members, kept, cluster.Member.Same) {
			t.Errorf("after %s: the members that were returned before are %+v now, they were %+v", what, before.Members, kept)
		}
		before, kept = after, slices.Clone(after.Members)
	}
	b.Age(t, time.Second) // a session begins later than the previous one's heartbeats
	a.SessionID = uuid.Must(uuid.NewV7()).String()
	beat(t, b, a)
	notices("another session of a", "a c", a)
	b.Age(t, timeout/2)
	look()
	b.Age(t, timeout/2+time.Second)
	d := node("c", "d")
	beat(t, b, d)
	notices("d in the place of a", "c d", d)
}

// The version of a member without a lease grows with each of its sessions, also after an
// expiry, and all members see the same one.
func versionsGrow(t *testing.T, b Backend) {
	c := node("c", "c")
	for n := range int64(5) {
		if n == 3 {
			b.Age(t, 2*timeout)
			c = node("c", "c")
		}
		b.Age(t, time.Second) // a session begins later than the previous one's heartbeats
		if got := beat(t, b, node("c", "a"))["a"]; got.Version != n+1 {
			t.Errorf("session %d of a has version %d, want %d", n+1, got.Version, n+1)
		}
		if got := beat(t, b, c)["a"]; got.Version != n+1 {
			t.Errorf("c sees session %d of a with version %d, want %d", n+1, got.Version, n+1)
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
	snap, err := b.Heartbeat(t.Context(), cluster.Beat{Self: c, At: time.Now(), Timeout: 1000 * timeout})
	if err != nil || len(snap.Members) != 1 || !snap.Members[0].Same(c) {
		t.Errorf("%+v, %v", snap, err)
	}
}

// A late heartbeat of an older lease does not replace the heartbeat of a newer lease.
// (Backends that read the leases themselves do not record such heartbeats.)
func olderLease(t *testing.T, b Backend) {
	leased := cluster.Member{Cluster: "c", Name: "a", NodeID: 7, SessionID: "new", Version: 9}
	late := cluster.Member{Cluster: "c", Name: "b", NodeID: 7, SessionID: "old", Version: 8}
	beat(t, b, leased)
	if _, err := b.Heartbeat(t.Context(), cluster.Beat{Self: late, At: time.Now(), Timeout: timeout}); err != nil && !errors.Is(err, cluster.ErrDropped) {
		t.Errorf("the heartbeat of an older lease: got %v, want ErrDropped", err)
	}
	if got, ok := beat(t, b, node("c", "reader"))["b"]; ok {
		t.Errorf("the older lease is alive: %+v", got)
	}
}

// A late publication does not replace a newer one.
func latePublication(t *testing.T, b Backend) {
	m := node("c", "a")
	for _, p := range []struct{ version, revision, want int64 }{
		{2, 5, 205}, {2, 4, 205}, {2, 5, 205}, {1, 9, 205}, {2, 6, 206}, {3, 1, 301}, {2, 7, 301},
	} {
		m.Version = p.version
		if err := b.Publish(t.Context(), m, p.revision, cluster.Versions{"7": 100*p.version + p.revision}); err != nil {
			t.Fatal(err)
		}
		if all, err := b.Known(t.Context(), "c"); err != nil || all["@a"]["7"] != p.want {
			t.Errorf("after revision %d of version %d: got %v, %v, want %d", p.revision, p.version, all, err, p.want)
		}
	}
}

// A member's publication is forgotten together with the member. A live member's
// publication is not forgotten, however old it is.
func forgetKnown(t *testing.T, b Backend) {
	gone, here := node("c", "gone"), node("c", "here")
	for _, m := range []cluster.Member{gone, here} {
		beat(t, b, m)
		if err := b.Publish(t.Context(), m, 1, cluster.Versions{"7": 1}); err != nil {
			t.Fatal(err)
		}
	}
	b.Age(t, 10*timeout)
	here.SessionID = uuid.Must(uuid.NewV7()).String()
	beat(t, b, here)
	if err := b.Expire(t.Context(), "c", 5*timeout); err != nil {
		t.Fatal(err)
	}
	all, err := b.Known(t.Context(), "c")
	if err != nil || all["@gone"] != nil || all["@here"] == nil {
		t.Errorf("got %v, %v, want the known versions of \"here\"", all, err)
	}
}

func known(t *testing.T, b Backend) {
	a, c := node("c", "a"), node("c", "c")
	numbered := cluster.Member{Cluster: "c", Name: "n", NodeID: 7, SessionID: "s", Version: 3}
	if all, err := b.Known(t.Context(), "c"); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	want := map[string]cluster.Versions{
		"@a": {"@a": 1, "@c": 2}, "@c": {"@c": 2, "7": 3}, "7": {"7": 3},
	}
	for _, p := range []struct {
		m        cluster.Member
		revision int64
		known    cluster.Versions
	}{{a, 1, cluster.Versions{"@old": 9}}, {a, 2, want["@a"]}, {c, 1, want["@c"]}, {numbered, 1, want["7"]}, {node("other", "a"), 1, cluster.Versions{"@a": 5}}} {
		if err := b.Publish(t.Context(), p.m, p.revision, p.known); err != nil {
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
				snap, err := b.Heartbeat(t.Context(), cluster.Beat{Self: m, At: time.Now(), Timeout: timeout})
				if err != nil || !slices.ContainsFunc(snap.Members, m.Same) {
					t.Errorf("%s is not among %d members, %v", m.Name, len(snap.Members), err)
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
	if snap, err := b.Heartbeat(ctx, cluster.Beat{Self: node("c", "a"), At: time.Now(), Timeout: timeout}); err == nil {
		t.Errorf("no error, %+v", snap)
	}
}

func ownTimeout(t *testing.T, b Backend) {
	beat(t, b, node("c", "a"))
	b.Age(t, 2*timeout)
	snap, err := b.Heartbeat(t.Context(), cluster.Beat{Self: node("c", "c"), At: time.Now(), Timeout: 3 * timeout})
	if err != nil || len(snap.Members) != 2 {
		t.Errorf("%+v, %v", snap, err)
	}
}
