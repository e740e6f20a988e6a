package leasepool_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
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

// between is a store that calls a function before a floor is stored, if there is one, and
// another one afterwards.
type between struct {
	protocol.Store
	before, then func()
}

func (s between) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	_, floor := w.(protocol.RaiseFloor)
	if floor && s.before != nil {
		s.before()
	}
	res, err := s.Store.WritePool(ctx, w)
	if floor && res.Applied {
		s.then()
	}
	return res, err
}

// A seed or a resize stores a floor. At the same moment, another run that has read the pool's
// item before creates a missing node ID, which begins earlier. That is refused, because the node
// ID exists by then. In a narrow pool, to which the node ID is added in that moment, it is raised.
// If it was claimed as well, the run says what to do.
func TestFloorBesideAnEarlierRun(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		for _, narrow := range []bool{false, true} {
			for name, run := range map[string]func(*leasepool.Pool, leasepool.Spec) error{
				"seed":   func(p *leasepool.Pool, s leasepool.Spec) error { _, err := p.Seed(t.Context(), s); return err },
				"resize": func(p *leasepool.Pool, s leasepool.Spec) error { _, err := p.Resize(t.Context(), s); return err },
			} {
				s := leasetest.NewMemory("", 0)
				spec := leasepool.Spec{Size: 8, Narrow: narrow}
				if _, err := leasepool.Open(s, "orders").Seed(t.Context(), spec); err != nil {
					t.Fatal(err)
				}
				change := func(w protocol.PoolWrite) {
					if res, err := s.WritePool(t.Context(), w); err != nil || res.Pool == nil {
						t.Fatal(res, err)
					}
				}
				change(protocol.ResizePool{Pool: "orders", Revision: 1, To: 9}) // so node ID 8 is missing
				key, now := protocol.Key{Pool: "orders", NodeID: 8}, time.Now()
				slow := leasepool.Open(between{Store: s, before: func() {
					change(protocol.AddNodeIDs{Pool: "orders", From: 8, To: 9}) // no change unless the pool is narrow
				}, then: func() {
					writes := []protocol.Write{protocol.Seed{Key: key, Floor: now}}
					if claimed {
						writes = append(writes, protocol.Claim{Key: key, Session: "me", At: now, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute)})
					}
					for _, w := range writes {
						if res, err := s.Write(t.Context(), w); err != nil || res.Applied != narrow {
							t.Error(res, err)
						}
					}
				}}, "orders")
				spec.Size, spec.Floor = 9, now.Add(time.Hour).Truncate(time.Millisecond)
				err := run(slow, spec)
				if claimed && narrow {
					errorHas(t, err, "node 8", "raise the pool")
				} else if l := fixture.Item(t, s, 8); err != nil || !l.ReservedUntil.Equal(spec.Floor) {
					t.Errorf("%s, narrow %v: got %+v, %v, want it to begin after %v", name, narrow, l, err, spec.Floor)
				}
				if l := fixture.Item(t, s, 7); !l.ReservedUntil.Before(spec.Floor) {
					t.Errorf("%s, narrow %v: got %+v, want a node ID that existed before unchanged", name, narrow, l)
				}
			}
		}
	}
}

// A run stores a floor and is cut off. At the same moment, another run that has read the pool's
// item before creates a missing node ID. The next run, which finds the floor stored, ends with
// a pool in which this node ID begins after the floor.
func TestFloorOfARunThatWasCutOff(t *testing.T) {
	for name, run := range map[string]func(context.Context, *leasepool.Pool, leasepool.Spec) error{
		"seed": func(ctx context.Context, p *leasepool.Pool, s leasepool.Spec) error {
			_, err := p.Seed(ctx, s)
			return err
		},
		"resize": func(ctx context.Context, p *leasepool.Pool, s leasepool.Spec) error {
			_, err := p.Resize(ctx, s)
			return err
		},
	} {
		s := leasetest.NewMemory("", 0)
		spec := leasepool.Spec{Size: 8}
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if res, err := s.WritePool(t.Context(), protocol.ResizePool{Pool: "orders", Revision: 1, To: 9}); err != nil || !res.Applied { // so node ID 8 is missing
			t.Fatal(res, err)
		}
		now := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		spec.Size, spec.Floor = 9, now.Add(time.Hour).Truncate(time.Millisecond)
		if err := run(ctx, leasepool.Open(between{Store: s, then: func() {
			if _, err := s.Write(t.Context(), protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: 8}, Floor: now}); err != nil {
				t.Error(err)
			}
			cancel()
		}}, "orders"), spec); err == nil {
			t.Errorf("%s: got nil, want an error of the run that was cut off", name)
		}
		err := run(t.Context(), leasepool.Open(s, "orders"), spec)
		if l := fixture.Item(t, s, 8); err != nil || l.ReservedUntil.Before(spec.Floor) {
			t.Errorf("%s: got %+v, %v, want it to begin after %v", name, l, err, spec.Floor)
		}
	}
}
