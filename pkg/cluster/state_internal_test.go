package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nodelease/nodelease/internal/protocol"
)

// fleetOf returns members with leases, ordered by session or not.
func fleetOf(n int, ordered bool) []Member {
	members := make([]Member, n)
	for i := range members {
		members[i] = Member{Cluster: "orders", Name: fmt.Sprint("node-", i), NodeID: i, SessionID: fmt.Sprintf("0193-%032d", i), Version: 1}
	}
	if !ordered {
		random := rand.New(rand.NewPCG(1, 2))
		random.Shuffle(n, func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
	return members
}

// Members that are already in order are not copied. If the same members are in another
// order, they are sorted, and the resulting state is the same.
func TestStateOfASnapshot(t *testing.T) {
	ordered := Snapshot{Members: fleetOf(1000, true), Ordered: true}
	self := ordered.Members[500]
	s := newState(&self, ordered)
	if !sameSlice(s.members, ordered.Members) {
		t.Error("the state copies a list that is already sorted")
	}
	snap := Snapshot{Members: append(fleetOf(1000, false), self)} // one session twice
	if other := newState(&self, snap); !other.Equal(s) || !slices.IsSortedFunc(other.members, bySession) {
		t.Errorf("the state of an unsorted list has %d members, want the %d of the sorted one", other.Len(), s.Len())
	}
}

// Beat.Leader passes the members to the elector in order.
func TestLeaderOfASnapshot(t *testing.T) {
	last := func(s State) (m Member, ok bool) {
		for m = range s.Members() {
			ok = true
		}
		return m, ok
	}
	for _, ordered := range []bool{false, true} {
		snap := Snapshot{Members: fleetOf(100, ordered), Ordered: ordered}
		if m, ok := (Beat{}).Leader(snap); !ok || m.NodeID != 0 {
			t.Errorf("ordered %v: got %+v, %v, want the lowest session", ordered, m, ok)
		}
		if m, ok := (Beat{Elect: last}).Leader(snap); !ok || m.NodeID != 99 {
			t.Errorf("ordered %v: got %+v, %v, want the elector's choice, node 99", ordered, m, ok)
		}
	}
	if m, ok := (Beat{}).Leader(Snapshot{}); ok {
		t.Errorf("got %+v of no members, want none", m)
	}
}

// Measures how long a node takes to build its state from a snapshot.
func BenchmarkState(b *testing.B) {
	for _, n := range []int{1024, 8192, protocol.MaxPoolSize} {
		for _, ordered := range []bool{true, false} {
			b.Run(fmt.Sprintf("ordered=%v/%d", ordered, n), func(b *testing.B) {
				snap := Snapshot{Members: fleetOf(n, ordered), Ordered: ordered}
				self := snap.Members[n/2]
				for b.Loop() {
					_ = newState(&self, snap)
				}
			})
		}
	}
}
