package leasepool_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// inUse fails the test unless exactly the node IDs below size exist and are in use.
func inUse(t *testing.T, p *leasepool.Pool, size int) {
	t.Helper()
	leases, _ := all(t, p)
	for n := range size {
		if l, ok := leases[n]; !ok || l.Retired {
			t.Fatalf("node %d of %d: %v, %+v", n, size, ok, l)
		}
	}
	for n, l := range leases {
		if n >= size && !l.Retired {
			t.Fatalf("node %d is in use in a pool of %d", n, size)
		}
	}
	s, err := p.Stats(t.Context())
	if err != nil || s.Pool.Size != size {
		t.Fatalf("size %d, want %d, %v", s.Pool.Size, size, err)
	}
}

func TestResize(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, corrupt func(int)) {
		p := seeded(t, s, 300, 1)
		held := fixture.Hold(t, s, 290, time.Now(), 15*time.Second)
		resize := func(size int) leasepool.Changes {
			t.Helper()
			c, err := p.Resize(t.Context(), leasepool.Spec{Size: size, ExcludeBelow: 1})
			if err != nil || c.Pool.Size != size {
				t.Fatalf("resize to %d: %+v, %v", size, c, err)
			}
			return c
		}

		if c := resize(20); c.Retired != 280 || c.Finishing != 1 || c.Seeded != 0 {
			t.Errorf("shrinking: %+v", c)
		}
		// Nothing is deleted, and the holder of a retired node ID may finish.
		leases, _ := all(t, p)
		if len(leases) != 299 || !leases[299].Retired || leases[19].Retired {
			t.Errorf("%d node IDs, %+v", len(leases), leases[19])
		}
		if res, err := s.Write(t.Context(), renew(held, time.Now())); err != nil || !res.Applied || !res.Lease.Retired {
			t.Errorf("renewal of a retired node ID: %+v, %v", res, err)
		}
		if c := resize(20); c.Retired != 0 || c.Restored != 0 || c.Finishing != 1 {
			t.Errorf("shrinking again: %+v", c)
		}

		want := leasepool.Changes{Restored: 280, Seeded: 300}
		if corrupt != nil {
			corrupt(550)
			want.Seeded--
		}
		c := resize(600)
		if c.Restored != want.Restored || c.Seeded != want.Seeded || c.Finishing != 0 || (c.Corrupt[550] != "") != (corrupt != nil) {
			t.Errorf("growing: %+v", c)
		}
		leases, _ = all(t, p)
		if l := leases[290]; l.Retired || l.Version != held.Version || l.Holder != held.Holder {
			t.Errorf("node 290 is %+v, want it as it was", l)
		}
		if _, ok := leases[0]; ok {
			t.Error("the reserved node ID was seeded")
		}
	})
}

func TestResizeRefuses(t *testing.T) {
	p := leasepool.Open(leasetest.NewMemory("", 0), "orders")
	if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 5}); !errors.Is(err, protocol.ErrPoolNotSeeded) {
		t.Errorf("resize of no pool: %v", err)
	}
	p = leasepool.Open(leasetest.NewMemory("orders", 5), "orders")
	_, err := p.Resize(t.Context(), leasepool.Spec{})
	errorHas(t, err, "size 0")
	_, err = p.Resize(t.Context(), leasepool.Spec{Size: 9, ExcludeBelow: 2})
	errorHas(t, err, "reserved", "another pool")
	inUse(t, p, 5)
}

// No matter at which write a resize is cut off, no agent tries to claim a node ID that does not
// exist, and the next run finishes the resize.
func TestResizeResumes(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int
		size     int // the pool's size when the resize was cut off
		cut      func(*testing.T, *leasetest.Memory) (*leasepool.Pool, leasepool.Spec, func(leasepool.Spec) error)
	}{
		{name: "growing", from: 300, to: 600, size: 300, cut: cutResize[protocol.Seed]},
		{name: "shrinking", from: 600, to: 300, size: 300, cut: cutResize[protocol.Retire]},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := leasetest.NewMemory("orders", c.from)
			p, spec, run := c.cut(t, s)
			spec.Size = c.to
			errorHas(t, run(spec), "run it again")
			if item, err := s.PoolItem(t.Context(), "orders"); err != nil || item.Size != c.size {
				t.Errorf("size %d when cut off, want %d, %v", item.Size, c.size, err)
			}
			if _, err := p.Resize(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			inUse(t, p, c.to)
		})
	}
}

// cutResize returns a function that resizes a pool and is cut off at its 50th write of
// kind W.
func cutResize[W protocol.Write](t *testing.T, s *leasetest.Memory) (*leasepool.Pool, leasepool.Spec, func(leasepool.Spec) error) {
	ctx, cut := stopAfter[W](t, s, 50)
	return leasepool.Open(s, "orders"), leasepool.Spec{}, func(spec leasepool.Spec) error {
		_, err := leasepool.Open(cut, "orders").Resize(ctx, spec)
		return err
	}
}

// Several resizes run at the same time, to the same size or to different sizes.
// Afterwards, the node IDs match the pool's item, and each resize whose size the pool did
// not get has returned an error.
func TestResizeTogether(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := seeded(t, s, 30, 0)
		for _, sizes := range [][]int{{60, 60, 60}, {20, 20}, {10, 300, 40, 25}} {
			var right atomic.Int64
			fixture.Together(len(sizes), func(i int) {
				c, err := leasepool.Open(s, "orders").Resize(t.Context(), leasepool.Spec{Size: sizes[i]})
				if err == nil {
					right.Store(int64(c.Pool.Size))
				} else {
					errorHas(t, err, "someone else")
				}
			})
			if right.Load() == 0 {
				t.Errorf("resizes to %v: nobody got their size", sizes)
			}
			item, err := s.PoolItem(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			inUse(t, p, item.Size)
		}
	})
}

// One resize shrinks the pool and retires node IDs. Meanwhile, another resize makes the
// pool large again. The shrinking resize ends last, and still leaves no retired node IDs
// in the pool.
func TestResizeOvertaken(t *testing.T) {
	s := leasetest.NewMemory("orders", 100)
	var once atomic.Bool
	p := leasepool.Open(s, "orders")
	slow := through{Store: s, before: func(w protocol.Write) error {
		if _, ok := w.(protocol.Retire); ok && !once.Swap(true) {
			if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 200}); err != nil {
				t.Error(err)
			}
		}
		return nil
	}}
	_, err := leasepool.Open(slow, "orders").Resize(t.Context(), leasepool.Spec{Size: 10})
	errorHas(t, err, "resized to 200")
	inUse(t, p, 200)
}

// A resize from a size that the pool does not have changes nothing.
func TestResizeFromAnotherSize(t *testing.T) {
	s := leasetest.NewMemory("orders", 100)
	p, before := leasepool.Open(s, "orders"), item(t, s).Floor
	for _, from := range []int{99, 101} {
		_, err := p.Resize(t.Context(), leasepool.Spec{Size: 10, From: from, Floor: time.Now().Add(time.Hour)})
		errorHas(t, err, "resized to 100 meanwhile")
	}
	if floor := item(t, s).Floor; !floor.Equal(before) {
		t.Errorf("got the floor %v, want %v", floor, before)
	}
	inUse(t, p, 100)
	if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 200, From: 100}); err != nil {
		t.Error(err)
	}
	inUse(t, p, 200)
}

// If a resize was cut off, the node IDs that it created may be above a gap.
func TestResizeBehindGap(t *testing.T) {
	s := leasetest.NewMemory("orders", 600)
	fixture.Hold(t, s, 590, time.Now(), time.Hour)
	p := leasepool.Open(s, "orders")
	far := protocol.Key{Pool: "orders", NodeID: 5000}
	if _, err := s.Write(t.Context(), protocol.Seed{Key: far, Floor: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if c, err := p.Resize(t.Context(), leasepool.Spec{Size: 20}); err != nil || c.Retired != 581 || c.Finishing != 1 {
		t.Errorf("shrinking: %+v, %v", c, err)
	}
	// The resize to a larger size reads some node IDs twice, but counts each finishing
	// holder once.
	if c, err := p.Resize(t.Context(), leasepool.Spec{Size: 300}); err != nil || c.Restored != 280 || c.Finishing != 1 {
		t.Errorf("growing: %+v, %v", c, err)
	}
	to := time.Now().Add(time.Minute)
	// The node ID that is held is reserved for longer than that. It stays reserved, and
	// loses its holder.
	if c, err := p.Raise(t.Context(), to); err != nil || c.Raised != 601 {
		t.Errorf("raise: %+v, %v", c, err)
	}
	if l, err := s.Get(t.Context(), "orders", 590); err != nil || l.Holder != "" || l.ReservedUntil.Before(to.Add(50*time.Minute)) {
		t.Errorf("%+v, %v, want no holder and the same reservation", l, err)
	}
}

// A resize to 4 is cut off, and the pool is resized back to 8. A request of the first
// resize that arrives now changes nothing.
func TestLateRequestOfAnEarlierResize(t *testing.T) {
	s := leasetest.NewMemory("orders", 8)
	ctx, cancel := context.WithCancel(t.Context())
	var late protocol.Write
	cut := through{Store: s, before: func(w protocol.Write) error {
		if w.Item().NodeID == 5 {
			late = w
			cancel()
			return errors.New("no answer")
		}
		return nil
	}}
	if _, err := leasepool.Open(cut, "orders").Resize(ctx, leasepool.Spec{Size: 4}); err == nil {
		t.Fatal("got no error from the resize that was cut off")
	}
	p := leasepool.Open(s, "orders")
	if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 8}); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Write(t.Context(), late); err != nil || res.Applied {
		t.Errorf("got %+v, %v, want the late request refused", res.Lease, err)
	}
	inUse(t, p, 8)
}

// While a resize adds node IDs, a run that knows the earlier size sees them, sends a request
// to retire one of them, and dies. The request arrives after the resize, and changes nothing.
func TestLateRequestForAnAddedNodeID(t *testing.T) {
	s := leasetest.NewMemory("orders", 8)
	late := protocol.Retire{Key: protocol.Key{Pool: "orders", NodeID: 9}, Retired: true, Resize: item(t, s).Revision}
	p := leasepool.Open(s, "orders")
	if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 10}); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Write(t.Context(), late); err != nil || res.Applied {
		t.Errorf("got %+v, %v, want the late request refused", res.Lease, err)
	}
	inUse(t, p, 10)
}

// readThen is a store that calls a function once, after the pool's item was read.
type readThen struct {
	protocol.Store
	then func()
}

func (s *readThen) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.Store.PoolItem(ctx, pool)
	if f := s.then; f != nil {
		s.then = nil
		f()
	}
	return p, err
}

// A seed, or a widening, has read the pool's item. Then the pool becomes larger. In the end,
// all node IDs of the larger pool are in use, and the seed reports that its size is wrong.
func TestOlderRunBesideAResize(t *testing.T) {
	for _, narrow := range []bool{false, true} {
		fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
			spec := leasepool.Spec{Size: 300, Narrow: narrow}
			p := leasepool.Open(s, "orders")
			if _, err := p.Seed(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			slow := leasepool.Open(&readThen{s, func() {
				if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 500, Narrow: narrow}); err != nil {
					t.Error(err)
				}
			}}, "orders")
			run := func() error { _, err := slow.Seed(t.Context(), spec); return err }
			if narrow {
				run = func() error { _, err := slow.Widen(t.Context()); return err }
			}
			if err := run(); (err == nil) != narrow {
				t.Errorf("narrow %v: got %v, want an error of the seed only", narrow, err)
			}
			inUse(t, p, 500)
		})
	}
}

// The node IDs have a revision that the pool's item has not reached, as after someone has
// deleted the item and its cards and seeded the pool again. A resize that cannot restore
// them says so, and what it says helps.
func TestResizeBelowAnOlderRevision(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := seeded(t, s, 8, 0)
		for node, revision := range map[int]int64{4: 12, 5: 9} {
			if res, err := s.Write(t.Context(), protocol.Retire{Key: protocol.Key{Pool: "orders", NodeID: node}, Retired: true, Resize: revision}); err != nil || !res.Applied {
				t.Fatal(res, err)
			}
		}
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 8}); err == nil || !strings.Contains(err.Error(), "raise the pool") {
			t.Errorf("got %v, want an error with the remedy", err)
		}
		if _, err := p.Raise(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 8}); err != nil {
			t.Errorf("after the raise: %v", err)
		}
		inUse(t, p, 8)
	})
}

// A seed has read the pool's item. Then a node ID is retired by a later change, and the
// pool's item changes without a new size. The seed looks again, and restores the node ID.
func TestSeedThatANewerChangeRefuses(t *testing.T) {
	s := leasetest.NewMemory("orders", 8)
	slow := leasepool.Open(&readThen{s, func() {
		if res, err := s.Write(t.Context(), protocol.Retire{Key: protocol.Key{Pool: "orders", NodeID: 5}, Retired: true, Resize: 2}); err != nil || !res.Applied {
			t.Error(res, err)
		}
		for revision := range int64(2) {
			if res, err := s.WritePool(t.Context(), protocol.ExpectHolders{Pool: "orders", Revision: revision + 1, Expect: 4, OpenGroups: 1}); err != nil || !res.Applied {
				t.Error(res, err)
			}
		}
	}}, "orders")
	if _, err := slow.Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
		t.Fatal(err)
	}
	inUse(t, leasepool.Open(s, "orders"), 8)
}
