package lease_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// judged is a table that says what it is, and how often it was asked.
type judged struct {
	*fixture.Network
	unsafe error
	asked  atomic.Int64
}

func (j *judged) Check(context.Context) error {
	j.asked.Add(1)
	return j.unsafe
}

func (j *judged) Judge(ctx context.Context) (*protocol.Verdict, error) {
	v, err := j.Network.Judge(ctx)
	if v != nil && j.unsafe != nil {
		v.Safe = false
	}
	return v, errors.Join(err, j.unsafe)
}

// A start asks about the table only where no verdict counts.
func TestStartByVerdict(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &judged{Network: fixture.NewNetwork(8)}
		start := func(want int64, why string) {
			t.Helper()
			s.asked.Store(0)
			fixture.Start(t, fixture.Config(s))
			if got := s.asked.Load(); got != want {
				t.Errorf("%s: asked %d times, want %d", why, got, want)
			}
		}
		pool := leasepool.Open(s, "orders")
		start(1, "without a verdict")
		if _, err := pool.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		start(0, "with one")
		fixture.Wait(time.Hour)
		start(0, "with one of an hour ago")
		fixture.Wait(time.Millisecond)
		start(1, "with an older one")
		if _, err := pool.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		start(0, "with a new one")
		if _, err := pool.Raise(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if p, err := s.PoolItem(t.Context(), "orders"); err != nil || p.Verdict != nil {
			t.Errorf("after a raise: %+v, %v, want no verdict", p.Verdict, err)
		}
	})
}

// An agent that reads an unsafe verdict checks the table, and no agent claims or seeds in
// an unsafe table.
func TestUnsafeIsAskedAgain(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &judged{Network: fixture.NewNetwork(8), unsafe: lease.ErrUnsafeReplication}
		pool := leasepool.Open(s, "orders")
		if c, err := pool.Tend(t.Context()); !errors.Is(err, lease.ErrUnsafeReplication) || c.Pool.Verdict == nil || c.Pool.Verdict.Safe {
			t.Fatalf("got %+v, %v, want that it is unsafe", c.Pool.Verdict, err)
		}
		cfg, before := fixture.Config(s), s.Writes()
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrUnsafeReplication) || s.Writes() != before {
			t.Errorf("got %v after %d writes, want a refusal and none", err, s.Writes()-before)
		}
		cfg.Pool, cfg.SeedIfMissing = "missing", &leasepool.Spec{Size: 2}
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrUnsafeReplication) {
			t.Errorf("got %v, want a refusal", err)
		}
		if _, err := s.PoolItem(t.Context(), "missing"); !errors.Is(err, lease.ErrPoolNotSeeded) {
			t.Errorf("got %v, want that nothing was seeded", err)
		}
		s.unsafe = nil // the replica was removed
		s.asked.Store(0)
		fixture.Start(t, fixture.Config(s))
		if s.asked.Load() != 1 {
			t.Errorf("asked %d times, want once", s.asked.Load())
		}
	})
}

// The reaper's verdict is written when it says something new, and above all at once when
// the table is unsafe.
func TestTendVouches(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &judged{Network: fixture.NewNetwork(8)}
		pool := leasepool.Open(s, "orders")
		tend := func() *protocol.Verdict {
			t.Helper()
			c, err := pool.Tend(t.Context())
			if !errors.Is(err, s.unsafe) {
				t.Fatal(err)
			}
			if p, err := s.PoolItem(t.Context(), "orders"); err != nil || *p.Verdict != *c.Pool.Verdict || p.Revision != 1 {
				t.Fatalf("got %+v, %v, want %+v and the revision as it was", p, err, c.Pool.Verdict)
			}
			return c.Pool.Verdict
		}
		first := tend()
		if !first.Safe || first.By != "tend" || !first.At.Equal(time.Now()) {
			t.Errorf("got %+v", first)
		}
		fixture.Wait(20*time.Minute - time.Millisecond)
		if v := tend(); *v != *first {
			t.Errorf("got %+v, want no write for the same", v)
		}
		fixture.Wait(time.Millisecond)
		second := tend()
		if !second.At.Equal(time.Now()) {
			t.Errorf("got %+v, want a new one", second)
		}
		s.unsafe = lease.ErrUnsafeReplication
		if v := tend(); v.Safe {
			t.Errorf("got %+v, want that it is unsafe", v)
		}
	})
}

// skewed is a table whose clock differs from this machine's.
type skewed struct {
	*judged
	off time.Duration
}

func (s *skewed) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.judged.PoolItem(ctx, pool)
	p.ServerTime = time.Now().Add(s.off).Truncate(time.Second)
	return p, err
}

// A verdict of a clock that is ahead would count when it is long out of date.
func TestNoVerdictByAWrongClock(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &skewed{&judged{Network: fixture.NewNetwork(8)}, -time.Hour}
		if _, err := leasepool.Open(s, "orders").Tend(t.Context()); !errors.Is(err, lease.ErrClockSkew) {
			t.Errorf("got %v, want ErrClockSkew", err)
		}
		if p, err := s.PoolItem(t.Context(), "orders"); err != nil || p.Verdict != nil {
			t.Errorf("got %+v, %v, want no verdict", p.Verdict, err)
		}
	})
}
