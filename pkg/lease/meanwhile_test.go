package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// The following tests are about what others do to a pool while an agent starts.

// shrinking is a store whose pool is made smaller just before its item is read for the
// second time. Its node IDs are not retired yet.
type shrinking struct {
	*leasetest.Memory
	reads int
}

func (s *shrinking) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.Memory.PoolItem(ctx, pool)
	if s.reads++; s.reads != 2 || err != nil {
		return p, err
	}
	res, err := s.WritePool(ctx, protocol.ResizePool{Pool: pool, Revision: p.Revision, To: 100, At: time.Now()})
	if err != nil {
		return p, err
	}
	return *res.Pool, nil
}

// A pool becomes smaller while an agent claims one of the node IDs that are about to be
// retired. The agent uses this node ID, as other holders of such node IDs do.
func TestPoolShrinksDuringAClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &shrinking{Memory: leasetest.NewMemory("orders", 1280)}
		for n := range 255 {
			fixture.Hold(t, s.Memory, n, time.Now(), time.Minute)
		}
		// A pool that is mostly taken, so that the agent reads a group first. The group is nearly
		// full, so the agent reads the pool's item again before it claims.
		res, err := s.WritePool(t.Context(), protocol.Measure{Pool: "orders", Measured: protocol.Measured{Held: 1000, At: time.Now(), Valid: time.Hour}})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		a := fixture.Start(t, fixture.Config(s))
		if _, err := fixture.IDs(t, a).Next(); err != nil || a.NodeID() != 255 || s.reads < 2 {
			t.Errorf("got node %d, %v after %d reads of the pool's item, want node 255", a.NodeID(), err, s.reads)
		}
	})
}

// A narrow pool cannot become wider, because one of its node IDs is reserved for years. Its
// newest group is full. Agents claim the node IDs that are free in the other group. An agent
// that waits warns at most once a minute.
func TestPoolThatStaysNarrow(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1000, Narrow: true}); err != nil {
			t.Fatal(err)
		}
		if res, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		if res, err := s.Write(t.Context(), protocol.Raise{Key: protocol.Key{Pool: "orders"}, To: time.Now().AddDate(5, 0, 0)}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		const free = 10
		for n := 1 + free; n < 512; n++ {
			fixture.Hold(t, s, n, time.Now(), time.Hour)
		}
		for range free {
			fixture.Start(t, fixture.Config(s))
		}
		e := &fixture.Events{}
		cfg := fixture.Config(s)
		cfg.Wait, cfg.OnEvent = 4*time.Minute, e.Add
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Errorf("got %v, want %v", err, lease.ErrPoolExhausted)
		}
		if n := len(e.Of(lease.EventWarning)); n < 1 || n > 5 {
			t.Errorf("got %d warnings in 4 min, want one to five", n)
		}
	})
}

// seeded is a store whose pool another agent seeds just before this agent creates it.
type seeded struct{ *leasetest.Memory }

func (s seeded) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	if _, creates := w.(protocol.CreatePool); creates {
		if _, err := leasepool.Open(s.Memory, "orders").Seed(ctx, leasepool.Spec{Size: 16}); err != nil {
			return protocol.PoolResult{}, err
		}
	}
	return s.Memory.WritePool(ctx, w)
}

// Two agents with different sizes in SeedIfMissing start at once. Both get a node ID of the
// pool that one of them has created.
func TestPoolIsSeededWithAnotherSize(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := seeded{leasetest.NewMemory("", 0)}
		cfg := fixture.Config(s)
		cfg.SeedIfMissing = &leasepool.Spec{Size: 8}
		fixture.Start(t, cfg)
		if p, err := s.PoolItem(t.Context(), "orders"); err != nil || p.Size != 16 {
			t.Errorf("got a pool of %d node IDs, %v, want the other one, of 16", p.Size, err)
		}
	})
}

// A narrow pool cannot become wider, because the mark of one of its node IDs is never answered.
// Its newest group is full. An agent that waits, and has no other limit, claims a node ID that is
// free in the other group.
func TestWideningWithoutAnAnswer(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(0)
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1000, Narrow: true}); err != nil {
			t.Fatal(err)
		}
		if res, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Mark); ok && w.Item().NodeID == 0 {
				return fixture.Hang(ctx)
			}
			return do()
		})
		const free = 10
		fixture.Hold(t, s, 0, time.Now(), time.Hour)
		for n := 1 + free; n < 512; n++ {
			fixture.Hold(t, s, n, time.Now(), time.Hour)
		}
		for range free { // some of them read the newest group first
			cfg := fixture.Config(s)
			cfg.Wait = time.Hour
			began := time.Now()
			fixture.Start(t, cfg)
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("a start took %v, want at most 5m", took)
			}
		}
	})
}
