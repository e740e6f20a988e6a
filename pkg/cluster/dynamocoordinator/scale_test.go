package dynamocoordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// fleetOf returns members with leases, whose sessions are in random order.
func fleetOf(n int) []cluster.Member {
	random := rand.NewChaCha8([32]byte{7})
	members := make([]cluster.Member, n)
	for i := range members {
		members[i] = cluster.Member{
			Cluster: "orders", Name: fmt.Sprint("node-", i), NodeID: i, SessionID: uuid.Must(uuid.NewRandomFromReader(random)).String(), Version: 1,
			Metadata: map[string]string{"zone": "a"},
		}
	}
	return members
}

// large is the digest of a cluster of n members, with a keeper and a reader.
type large struct {
	members       []cluster.Member
	keeper, table *Coordinator
	reader        cluster.Member
	client        lease.Client
}

func newLarge(tb testing.TB, n int) *large {
	tb.Helper()
	client := dynamotest.Embedded(tb)
	name := dynamotest.CreateTable(tb, client)
	l := &large{members: fleetOf(n), keeper: New(client, name), table: New(client, name), client: client}
	// A reader confirms the leader by its own item, so the leader really holds node ID 0.
	l.members[0].SessionID = "00000000" + l.members[0].SessionID[8:]
	store := lease.NewDynamoDB(client, name)
	if _, err := leasepool.Open(store, "orders").Seed(tb.Context(), leasepool.Spec{Size: 1}); err != nil {
		tb.Fatal(err)
	}
	now := time.Now()
	res, err := store.Write(tb.Context(), protocol.Claim{
		Key: protocol.Key{Pool: "orders"}, Session: "holder", Task: "task", At: now.Add(time.Minute), TTL: time.Hour, ExpiresAt: now.Add(time.Hour),
		ReservedUntil: now.Add(2 * time.Hour), Metadata: map[string]string{"node": l.members[0].Name, "session_id": l.members[0].SessionID},
	})
	if err != nil || !res.Applied {
		tb.Fatal(res, err)
	}
	l.reader = l.members[n-1]
	l.keep(tb)
	l.heartbeat(tb, false) // the first read only notes the beat and its time
	l.keep(tb)
	return l
}

// keep writes the digest, as the member with the oldest session does.
func (l *large) keep(tb testing.TB) {
	tb.Helper()
	if err := l.keeper.digestOf(l.members[0]).write(tb.Context(), cluster.Beat{Self: l.members[0], Timeout: time.Hour}, l.members, time.Now()); err != nil {
		tb.Fatal(err)
	}
}

// heartbeat makes the reader read the digest. It fails the test if the reader believes
// the digest and want is false, or the other way round.
func (l *large) heartbeat(tb testing.TB, want bool) cluster.Snapshot {
	tb.Helper()
	snap, ok, err := l.table.digestOf(l.reader).read(tb.Context(), cluster.Beat{Self: l.reader, Timeout: time.Hour})
	if err != nil || ok != want || ok && len(snap.Members) != len(l.members) {
		tb.Fatalf("got %d members of %d, believed %v, %v", len(snap.Members), len(l.members), ok, err)
	}
	return snap
}

// sameSlice reports whether a and b are the same slice, which means that nothing has
// changed.
func sameSlice(a, b []cluster.Member) bool { return len(a) == len(b) && &a[0] == &b[0] }

func has(s cluster.Snapshot, m cluster.Member) bool {
	return slices.ContainsFunc(s.Members, m.Same)
}

// If nothing has changed, a heartbeat does not build a new list of the members. It returns
// the same list as before, and the node keeps its state.
func TestUnchangedClusterCostsNothingMore(t *testing.T) {
	members := protocol.MaxPoolSize
	if testing.Short() {
		members = 4096
	}
	l := newLarge(t, members)
	first := l.heartbeat(t, true)
	l.keep(t)
	if again := l.heartbeat(t, true); !sameSlice(first.Members, again.Members) || !again.Heard.After(first.Heard) {
		t.Error("an unchanged digest made another list, or did not count as a heartbeat")
	}
	d := l.table.digestOf(l.reader)
	parts := d.parts["0"]
	l.members[300].Version++ // another session on node ID 300
	l.members[300].SessionID = uuid.Must(uuid.NewRandom()).String()
	l.keep(t)
	snap := l.heartbeat(t, true)
	if same := &d.parts["0"].members[0] == &parts.members[0]; !same || sameSlice(first.Members, snap.Members) || !slices.IsSortedFunc(snap.Members, bySession) {
		t.Errorf("an unchanged part was read again: %v, or the list is not sorted", !same)
	}
	if !has(snap, l.members[300]) || len(snap.Members) != len(first.Members) {
		t.Error("the change is not in the list")
	}
}

// patch returns the same list as a full sort of the edited members.
func TestPatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := fleetOf(200)
	for range 300 {
		pick := func() []cluster.Member {
			var some []cluster.Member
			for _, m := range all {
				if random.IntN(3) > 0 {
					m.Version = random.Int64N(2)
					some = append(some, m)
				}
			}
			slices.SortFunc(some, bySession)
			return some
		}
		from, to := pick(), pick()
		got := patch(from, diff(from, to))
		if !slices.EqualFunc(got, to, func(a, b cluster.Member) bool { return a.Same(b) && equal(a, b) }) {
			t.Fatalf("%d members, want %d", len(got), len(to))
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{1024, 8192, protocol.MaxPoolSize} {
		l := newLarge(b, n)
		l.heartbeat(b, true) // reads all parts
		b.Run(fmt.Sprint("unchanged/", n), func(b *testing.B) {
			for b.Loop() {
				l.heartbeat(b, true)
			}
		})
		b.Run(fmt.Sprint("keeper, unchanged/", n), func(b *testing.B) {
			for b.Loop() {
				l.keep(b)
			}
		})
		b.Run(fmt.Sprint("one change/", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				l.members[n/2].SessionID = uuid.Must(uuid.NewRandom()).String()
				l.keep(b)
				b.StartTimer()
				l.heartbeat(b, true)
			}
		})
	}
}

// Measures the read of all leases, which the keeper does at each heartbeat, and any other
// member at its first one. Its cost does not depend on how much has changed.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{1024, 8192, protocol.MaxPoolSize} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			client := dynamotest.Embedded(b)
			table := New(client, dynamotest.CreateTable(b, client))
			if _, err := leasepool.Open(table.store, "orders").Seed(b.Context(), leasepool.Spec{Size: n, Expect: n}); err != nil {
				b.Fatal(err)
			}
			now := time.Now()
			for _, m := range fleetOf(n) {
				res, err := table.store.Write(b.Context(), protocol.Claim{
					Key: protocol.Key{Pool: "orders", NodeID: m.NodeID}, Session: "session", Task: "task", At: now, TTL: time.Hour, ExpiresAt: now.Add(time.Hour),
					ReservedUntil: now.Add(2 * time.Hour), Metadata: map[string]string{"node": m.Name, "session_id": m.SessionID, "zone": "a"},
				})
				if err != nil || !res.Applied {
					b.Fatal(res, err)
				}
			}
			for b.Loop() {
				members, err := table.all(b.Context(), "orders", time.Now(), time.Hour)
				if err != nil || len(members) != n {
					b.Fatal(len(members), err)
				}
			}
		})
	}
}
