package leasepool_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// After a restore and a raise, no millisecond up to the given time can be stamped again
// with any node ID that the pool ever had.
func TestRaise(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, corrupt func(int)) {
		p := seeded(t, s, 600, 0)
		now := time.Now()
		held := fixture.Hold(t, s, 3, now, 15*time.Second)
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 10}); err != nil {
			t.Fatal(err)
		}
		if corrupt != nil {
			corrupt(5)
		}
		to := now.Add(time.Minute).Truncate(time.Millisecond)
		c, err := p.Raise(t.Context(), to)
		if err != nil || c.Raised < 599 || (c.Corrupt[5] != "") != (corrupt != nil) {
			t.Fatalf("raise: %+v, %v", c, err)
		}
		leases, _ := all(t, p)
		for n, l := range leases {
			if l.Holder != "" || !l.ReservedUntil.Equal(to) || l.Retired != (n >= 10) {
				t.Fatalf("node %d is %+v", n, l)
			}
		}
		if leases[3].Version != held.Version {
			t.Errorf("version %d, want %d", leases[3].Version, held.Version)
		}
		if res, err := s.Write(t.Context(), renew(held, time.Now())); err != nil || res.Applied {
			t.Errorf("the holder of before renews: %+v, %v", res, err)
		}

		// A raise to an earlier time changes nothing.
		if c, err = p.Raise(t.Context(), now.AddDate(-1, 0, 0)); err != nil || c.Raised != 0 {
			t.Errorf("raise to an earlier time: %+v, %v", c, err)
		}
		_, err = p.Raise(t.Context(), now.AddDate(3, 0, 0))
		errorHas(t, err, "a year ahead")
	})
}

// trusting is a store that refuses to forget its verdict.
type trusting struct{ protocol.Store }

func (s trusting) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	if _, forget := w.(protocol.ForgetVerdict); forget {
		return protocol.PoolResult{}, protocol.ErrAccess
	}
	return s.Store.WritePool(ctx, w)
}

// A raise that fails after it has raised the floor returns the pool, so that its caller can
// say that the pool is raised in part.
func TestRaiseInPart(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	seeded(t, s, 8, 0)
	c, err := leasepool.Open(trusting{s}, "orders").Raise(t.Context(), time.Now().Add(time.Minute))
	if err == nil || c.Pool.Pool != "orders" || !c.Pool.Floor.After(time.Now()) {
		t.Errorf("got %+v, %v, want the pool with its floor, and an error", c.Pool, err)
	}
}

// A raise also ends leases that have grown and so have reserved milliseconds beyond the
// time of the raise, since their holders are from before the restore. The reservations of
// these leases stay.
func TestRaiseEndsGrownLeases(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := seeded(t, s, 8, 0)
		now := time.Now()
		held := fixture.Hold(t, s, 3, now, 4*time.Hour)
		to := now.Add(time.Minute).Truncate(time.Millisecond)
		c, err := p.Raise(t.Context(), to)
		if err != nil || c.Raised != 8 {
			t.Fatalf("raise: %+v, %v", c, err)
		}
		leases, _ := all(t, p)
		if l := leases[3]; l.Holder != "" || !l.ReservedUntil.Equal(held.ReservedUntil) || l.Version != held.Version {
			t.Errorf("node 3 is %+v, want nobody's, and reserved until %v", l, held.ReservedUntil)
		}
		if res, err := s.Write(t.Context(), renew(held, time.Now())); err != nil || res.Applied {
			t.Errorf("the holder of before renews: %+v, %v", res, err)
		}
		if c, err = p.Raise(t.Context(), to); err != nil || c.Raised != 0 {
			t.Errorf("raised again: %+v, %v", c, err)
		}
	})
}

// vouched is a store that records the writes of verdicts.
type vouched struct {
	*leasetest.Memory
	writes []protocol.Vouch
}

func (s *vouched) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	if v, ok := w.(protocol.Vouch); ok {
		s.writes = append(s.writes, v)
	}
	return s.Memory.WritePool(ctx, w)
}

// A raise removes the verdict, since the table may be a different one. If the write of an
// earlier verdict arrives late, it has no effect, not even if that verdict was the first
// one of the pool.
func TestRaiseRemovesTheVerdictForGood(t *testing.T) {
	s := &vouched{Memory: leasetest.NewMemory("orders", 4)}
	p := leasepool.Open(s, "orders")
	if c, err := p.Tend(t.Context()); err != nil || c.Pool.Verdict == nil || len(s.writes) != 1 {
		t.Fatalf("%+v, %v, and %d writes of a verdict, want one", c.Pool, err, len(s.writes))
	}
	if _, err := p.Raise(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Memory.WritePool(t.Context(), s.writes[0]); err != nil || r.Applied {
		t.Errorf("the verdict from before the raise: applied %v, %v, want a refusal", r.Applied, err)
	}
	if item, err := s.PoolItem(t.Context(), "orders"); err != nil || item.Verdict != nil {
		t.Errorf("%+v, %v, want no verdict", item, err)
	}
	if c, err := p.Tend(t.Context()); err != nil || c.Pool.Verdict == nil {
		t.Errorf("after the raise: %+v, %v, want a new verdict", c.Pool, err)
	}
}

// duringSeeds is a store on which raise is called before the first Seed is executed.
func duringSeeds(s protocol.Store, raise func()) protocol.Store {
	var once sync.Once
	return through{Store: s, before: func(w protocol.Write) error {
		if _, seed := w.(protocol.Seed); seed {
			once.Do(raise)
		}
		return nil
	}}
}

// A pool is raised while another process creates node IDs. No node ID begins before the
// floor, although that process had read an earlier one.
func TestRaiseWhileNodeIDsAreCreated(t *testing.T) {
	to := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	raise := func(p *leasepool.Pool) func() {
		return func() {
			if _, err := p.Raise(t.Context(), to); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("by a resize", func(t *testing.T) {
		s := leasetest.NewMemory("orders", 8)
		p := leasepool.Open(s, "orders")
		if c, err := leasepool.Open(duringSeeds(s, raise(p)), "orders").Resize(t.Context(), leasepool.Spec{Size: 16}); err != nil || c.Pool.Size != 16 {
			t.Fatalf("got %+v, %v, want a pool of 16", c, err)
		}
		noneBefore(t, p, to)
	})
	t.Run("by a resize of a narrow pool", func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		p := narrow(t, s, 300, 1)
		if c, err := leasepool.Open(duringSeeds(s, raise(p)), "orders").Resize(t.Context(), leasepool.Spec{Size: 400, ExcludeBelow: 8, Narrow: true}); err != nil || c.Pool.Size != 400 {
			t.Fatalf("got %+v, %v, want a pool of 400", c, err)
		}
		noneBefore(t, p, to)
	})
	t.Run("by a widening", func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		p := narrow(t, s, 700, 2)
		if c, err := leasepool.Open(duringSeeds(s, raise(p)), "orders").Tend(t.Context()); err != nil {
			t.Fatalf("got %+v, %v, want no error", c, err)
		}
		noneBefore(t, p, to)
	})
}

// A holder renews between the read and the write of a raise, past the time to which the
// pool is raised. Its lease ends all the same.
func TestRaiseBesideARenewal(t *testing.T) {
	s := leasetest.NewMemory("orders", 8)
	now := time.Now()
	held, to := fixture.Hold(t, s, 3, now, 15*time.Second), now.Add(time.Minute)
	r := renew(held, now)
	r.ReservedUntil = to.Add(time.Second)
	var once sync.Once
	p := leasepool.Open(through{Store: s, before: func(w protocol.Write) error {
		if _, raise := w.(protocol.Raise); raise && w.Item().NodeID == 3 {
			once.Do(func() {
				if res, err := s.Write(t.Context(), r); err != nil || !res.Applied {
					t.Error(res, err)
				}
			})
		}
		return nil
	}}, "orders")
	if c, err := p.Raise(t.Context(), to); err != nil {
		t.Fatal(c, err)
	}
	if leases, _ := all(t, p); leases[3].Holder != "" {
		t.Errorf("got the holder %q after the raise, want none", leases[3].Holder)
	}
}
