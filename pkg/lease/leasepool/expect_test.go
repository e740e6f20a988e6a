package leasepool_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// poolCounter counts the writes of the pool's item.
type poolCounter struct {
	protocol.Store
	n atomic.Int64
}

func (s *poolCounter) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	s.n.Add(1)
	return s.Store.WritePool(ctx, w)
}

// A seed opens the groups for all expected holders in one write, and so does a later seed
// that expects more holders. A later seed that expects fewer holders changes nothing.
func TestExpect(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		c := &poolCounter{Store: s}
		p := leasepool.Open(c, "orders")
		for _, step := range []struct {
			what                  string
			do                    func(context.Context, leasepool.Spec) (leasepool.Changes, error)
			size, expect          int
			writes, wants, groups int
		}{
			{what: "seed", do: p.Seed, size: 2000, expect: 500, writes: 1, wants: 500, groups: 3},
			{what: "the same", do: p.Seed, size: 2000, expect: 500, wants: 500, groups: 3},
			{what: "unknown", do: p.Seed, size: 2000, wants: 500, groups: 3},
			{what: "fewer", do: p.Seed, size: 2000, expect: 10, wants: 500, groups: 3},
			{what: "more", do: p.Seed, size: 2000, expect: 600, writes: 1, wants: 600, groups: 4},
			{what: "more by a resize", do: p.Resize, size: 2000, expect: 1400, writes: 1, wants: 1400, groups: 8},
			{what: "grow", do: p.Resize, size: 2100, writes: 2, wants: 1400, groups: 9},
			{what: "fewer by a resize", do: p.Resize, size: 2100, expect: 1, wants: 1400, groups: 9},
		} {
			c.n.Store(0)
			changes, err := step.do(t.Context(), leasepool.Spec{Size: step.size, Expect: step.expect})
			if err != nil {
				t.Fatal(err)
			}
			now := item(t, s)
			if now.Expect != step.wants || now.OpenGroups != step.groups || changes.Pool.OpenGroups != now.OpenGroups || int(c.n.Load()) != step.writes {
				t.Errorf("%s: %d expected, %d groups open (told: %d), by %d writes; want %d, %d, %d", step.what, now.Expect, now.OpenGroups, changes.Pool.OpenGroups, c.n.Load(), step.wants, step.groups, step.writes)
			}
		}
		for _, expect := range []int{-1, 2101} {
			if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 2100, Expect: expect}); err == nil || !strings.Contains(err.Error(), "use 0, which is unknown, to 2100") {
				t.Errorf("%d expected: got %v", expect, err)
			}
		}
	})
}

// If Expect is not set, a pool begins with the default number of open groups.
func TestNoneExpected(t *testing.T) {
	for size, want := range map[int]int{1: 1, 1024: 4, 1025: 1} {
		s := leasetest.NewMemory("orders", size)
		if p := item(t, s); p.OpenGroups != want || p.Expect != 0 {
			t.Errorf("%d node IDs: %+v", size, p)
		}
	}
}

// Groups that an agent opens meanwhile stay open.
func TestExpectBesideAnOpenedGroup(t *testing.T) {
	s := leasetest.NewMemory("orders", 2000)
	racing := &poolWrites{Store: s, before: func(protocol.PoolWrite) bool {
		if res, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 7}); err != nil || !res.Applied {
			t.Error(res, err)
		}
		return true
	}}
	if c, err := leasepool.Open(racing, "orders").Seed(t.Context(), leasepool.Spec{Size: 2000, Expect: 500}); err != nil || c.Pool.OpenGroups != 7 || c.Pool.Expect != 500 {
		t.Errorf("got %+v, %v, want 7 open groups", c.Pool, err)
	}
}

// A narrow pool begins with the width for all expected holders, so the width never changes
// while a fleet of 1,024 starts at once.
func TestExpectNarrow(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		if c, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 65536, Expect: 1024, Narrow: true}); err != nil || c.Seeded != 2048 {
			t.Fatalf("%+v, %v", c, err)
		}
		fixture.Together(1024, func(int) {
			a, err := lease.Start(t.Context(), fixture.Config(s))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = a.Close() })
		})
		fixture.Wait(time.Minute)
		if p := item(t, s); len(p.Eras) != 1 || p.Bits() != 11 {
			t.Errorf("%+v", p)
		}
	})
}

// If more holders are expected in an existing narrow pool, the pool gets the width for
// them in one change.
func TestExpectMoreNarrow(t *testing.T) {
	for name, verb := range map[string]func(*leasepool.Pool, context.Context, leasepool.Spec) (leasepool.Changes, error){"seed": (*leasepool.Pool).Seed, "resize": (*leasepool.Pool).Resize} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := leasetest.NewMemory("", 0)
				spec := leasepool.Spec{Size: 4096, Narrow: true}
				p := leasepool.Open(s, "orders")
				if _, err := p.Seed(t.Context(), spec); err != nil {
					t.Fatal(err)
				}
				spec.Expect = 1024
				c, err := verb(p, t.Context(), spec)
				if err != nil || c.Marked != 512 || c.Seeded != 1536 {
					t.Errorf("%+v, %v", c, err)
				}
				if now := item(t, s); len(now.Eras) != 2 || now.Bits() != 11 || now.ExistBelow != 2048 || now.OpenGroups != 6 || c.Pool.Bits() != 11 {
					t.Errorf("%+v", now)
				}
			})
		})
	}
}

// If Expect is not set, the pool of a fleet of 1,024 reaches its width in two changes.
func TestNarrowFleetOf1024(t *testing.T) {
	if testing.Short() {
		t.Skip("1,024 agents through two changes: run without -short")
	}
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 65536, Narrow: true}); err != nil {
			t.Fatal(err)
		}
		fixture.Together(1024, func(int) {
			cfg := fixture.Config(s)
			cfg.Wait = 5 * time.Minute
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = a.Close() })
		})
		p := item(t, s)
		for range 30 {
			if p.Bits() >= 11 {
				break
			}
			fixture.Wait(10 * time.Second)
			p = item(t, s)
		}
		if len(p.Eras) > 3 || p.Bits() != 11 {
			t.Errorf("%+v", p)
		}
	})
}

// A seed that expects more holders is cut off while it widens the pool. The next one
// continues.
func TestSeedContinuesAWidening(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	narrow(t, s, 2048, 1)
	spec := leasepool.Spec{Size: 2048, ExcludeBelow: 8, Narrow: true, Expect: 1000}
	ctx, cut := stopAfter[protocol.Mark](t, s, 10)
	if _, err := leasepool.Open(cut, "orders").Seed(ctx, spec); err == nil {
		t.Fatal("got no error from the seed that was cut off")
	}
	c, err := leasepool.Open(s, "orders").Seed(t.Context(), spec)
	if bits, wider := item(t, s).NextBits(); err != nil || wider {
		t.Errorf("got %v and %d bits, want no error and %d bits; %d node IDs were marked", err, item(t, s).Bits(), bits, c.Marked)
	}
}
