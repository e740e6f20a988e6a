package leasepool_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// The floor of a pool never becomes earlier, and every node ID that is created later
// begins after it. The node ID may be created by a resize, by a seed that finds an
// existing pool, by the mark of a widening, or after a raise because it was missing from
// a backup.
func TestFloorIsKept(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := leasepool.Open(s, "orders")
		floor := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		begins := func(node int, want time.Time) {
			t.Helper()
			l, err := s.Get(t.Context(), "orders", node)
			if err != nil || l == nil || !l.ReservedUntil.Equal(want) {
				t.Errorf("node %d is %+v, %v, want it to begin after %v", node, l, err, want)
			}
			if got := item(t, s).Floor; !got.Equal(want) {
				t.Errorf("the floor is %v, want %v", got, want)
			}
		}
		if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 2, Floor: floor}); err != nil {
			t.Fatal(err)
		}
		begins(1, floor)
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 3}); err != nil {
			t.Fatal(err)
		}
		begins(2, floor)
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 4, Floor: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		begins(3, floor) // an earlier floor does not lower it
		later := floor.Add(time.Hour)
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 5, Floor: later}); err != nil {
			t.Fatal(err)
		}
		begins(4, later)
		latest := later.Add(time.Hour)
		if _, err := p.Raise(t.Context(), latest); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 6}); err != nil {
			t.Fatal(err)
		}
		begins(5, latest)
		last := latest.Add(time.Hour)
		if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 6, Floor: last}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 7}); err != nil {
			t.Fatal(err)
		}
		begins(6, last)
	})
}

// A mark creates a missing node ID no earlier than the floor.
func TestMarkKeepsTheFloor(t *testing.T) {
	floor := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	p, ok := protocol.CreatePool{Pool: "orders", Size: 512, OpenGroups: 2, NodeBits: 9, ExistBelow: 512, Floor: floor}.Apply(nil)
	if !ok {
		t.Fatal("no pool")
	}
	if p, ok = protocol.NextTry(p, nil, time.Now(), 2*time.Hour).Apply(&p); !ok {
		t.Fatal("no try")
	}
	if got := protocol.NewWidener(p).Mark(7, time.Now()).Floor; !got.Equal(floor) {
		t.Errorf("a mark creates a node ID that begins after %v, want %v", got, floor)
	}
}
