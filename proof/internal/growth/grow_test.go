package growth_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// growing returns the configuration of an agent whose lease grows, which is the default.
func growing(s lease.Store) lease.Config { return fixture.Config(s) }

// renewals returns how many renewals were sent since the last call.
func renewals(s *fixture.Network, since *int) int {
	all := len(fixture.WritesOf[protocol.Renew](s))
	n := all - *since
	*since = all
	return n
}

// A holder's lease grows to MaxTTL, and its renewals become rare.
func TestLeasesGrow(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		fixture.Measuring(t, s, fixture.One)
		a := fixture.Start(t, growing(s))
		fixture.IDs(t, a)
		sent := 0
		fixture.Wait(140 * time.Second)
		if l := fixture.Item(t, s, a.NodeID()); l.TTL != 15*time.Second {
			t.Errorf("after 140 s: a lease of %v, want 15 s", l.TTL)
		}
		renewals(s, &sent)
		fixture.Wait(8 * time.Hour)
		renewals(s, &sent)
		fixture.Wait(10 * time.Hour)
		if n := renewals(s, &sent); n < 72 || n > 90 {
			t.Errorf("%d renewals in 10 hours, want one in 7.5 minutes", n)
		}
		l := fixture.Item(t, s, a.NodeID())
		if ahead := time.Until(l.ReservedUntil); l.TTL != 15*time.Minute || ahead < 3*time.Hour+51*time.Minute || ahead > 4*time.Hour {
			t.Errorf("a lease of %v, reserved for %v, want 15 min and 4 h", l.TTL, ahead)
		}
		if _, err := a.Lease(); err != nil {
			t.Error(err)
		}
		for _, w := range fixture.WritesOf[protocol.Renew](s) {
			if w.TTL+time.Second > w.ReservedUntil.Sub(w.ExpiresAt)+w.TTL {
				t.Fatalf("a lease longer than its reserve: %+v", w)
			}
		}
	})
}

// Leases stay as short as TTL if any condition for growth is not met.
func TestLeasesThatDoNotGrow(t *testing.T) {
	for name, c := range map[string]struct {
		size      int
		change    func(*lease.Config)
		generator bool
		held      int
		measured  bool
	}{
		"without a generator":         {64, nil, false, 1, true},
		"turned off":                  {64, func(c *lease.Config) { c.MaxTTL = 15 * time.Second }, true, 1, true},
		"a pool of one":               {1, func(c *lease.Config) { c.Grow = true }, true, 0, true},
		"a pool that is half full":    {64, nil, true, 33, true},
		"a measurement that is old":   {64, nil, true, 1, false},
		"a reserve that is no longer": {64, func(c *lease.Config) { c.MaxReserve = 16 * time.Second }, true, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(c.size)
				if c.measured {
					fixture.Measuring(t, s, func() int { return c.held })
				} else { // and no agent is permitted to count
					fixture.Measure(t, s, c.held, 0, time.Now().Add(time.Hour)) // a measurement from the future is not valid
				}
				cfg := growing(s)
				if c.change != nil {
					c.change(&cfg)
				}
				a := fixture.Start(t, cfg)
				if c.generator {
					fixture.IDs(t, a)
				}
				s.Denied(!c.measured)
				fixture.Wait(50 * time.Minute)
				if l := fixture.Item(t, s, a.NodeID()); l.TTL != 15*time.Second || time.Until(l.ReservedUntil) > 16*time.Second {
					t.Errorf("a lease of %v, reserved for %v, want 15 s and 16 s at most", l.TTL, time.Until(l.ReservedUntil))
				}
			})
		})
	}
}

// With Config.Grow, a lease grows even without a generator.
func TestGrowOnRequest(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		fixture.Measuring(t, s, fixture.One)
		cfg := growing(s)
		cfg.Grow = true
		a := fixture.Start(t, cfg)
		fixture.Wait(time.Hour)
		if l := fixture.Item(t, s, a.NodeID()); l.TTL < 5*time.Minute {
			t.Errorf("a lease of %v after an hour, want 5 to 6 min", l.TTL)
		}
	})
}

// If no function measures the pool, its holders count in turn.
func TestHoldersCountInTurn(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(256)
		var agents []*lease.Agent
		for range 20 {
			a := fixture.Start(t, growing(s))
			fixture.IDs(t, a)
			agents = append(agents, a)
		}
		fixture.Wait(2 * time.Hour)
		p, err := s.PoolItem(t.Context(), "orders")
		if err != nil || p.Measured == nil || p.Measured.Held != 20 {
			t.Fatalf("%+v, %v, want a count of 20", p.Measured, err)
		}
		if p.Revision != 2 { // the layout was bound
			t.Errorf("revision %d: a count is no change of the pool", p.Revision)
		}
		longest := map[int]time.Duration{} // of all renewals, since the latest may lack a recent count: chance decides which holder counts
		for _, w := range fixture.WritesOf[protocol.Renew](s) {
			longest[w.NodeID] = max(longest[w.NodeID], w.TTL)
		}
		for _, a := range agents {
			if _, err := a.Lease(); err != nil || longest[a.NodeID()] < 5*time.Minute {
				t.Errorf("a lease of %v in 2 h, %v, want 5 min or more", longest[a.NodeID()], err)
			}
		}
	})
}

// When a fleet's pool fills up, the fleet sends no extra requests. A holder sends nothing
// until only two thirds of TTL are left of its long lease, and then renews with TTL.
func TestAPoolThatFillsUp(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		var held atomic.Int64
		held.Store(1)
		fixture.Measuring(t, s, func() int { return int(held.Load()) })
		a := fixture.Start(t, growing(s))
		fixture.IDs(t, a)
		fixture.Wait(9 * time.Hour)
		held.Store(60)
		sent := 0
		renewals(s, &sent)
		fixture.Wait(30 * time.Minute)
		n := renewals(s, &sent)
		if l := fixture.Item(t, s, a.NodeID()); l.TTL != 15*time.Second {
			t.Errorf("a lease of %v in a full pool, want 15 s", l.TTL)
		}
		// The last long renewal was sent at most 8 min 12 s before the pool was full, and its
		// lease is relied on for 15 min. So at most 23 min 30 s are left for a renewal every 5 s,
		// give or take 10 % at random: 282 renewals on average.
		if most := 300; n > most {
			t.Errorf("%d renewals in the first 30 min, want fewer than %d: none while the long lease lasts", n, most)
		}
		if err := heldThroughout(a, 10*time.Minute); err != nil {
			t.Error(err)
		}
		// With enough room the lease grows again. It does not grow if the pool is only just
		// below the limit.
		held.Store(30) // 2 × 30 ≤ 64, and more than 64 - 6
		fixture.Wait(30 * time.Minute)
		if l := fixture.Item(t, s, a.NodeID()); l.TTL != 15*time.Second {
			t.Errorf("a lease of %v just below the limit, want 15 s", l.TTL)
		}
		held.Store(20)
		fixture.Wait(30 * time.Minute)
		if l := fixture.Item(t, s, a.NodeID()); l.TTL != 15*time.Minute {
			t.Errorf("a lease of %v with room, want 15 min", l.TTL)
		}
	})
}

// heldThroughout checks once a second, for the time d, that the lease is held.
func heldThroughout(a *lease.Agent, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); fixture.Wait(time.Second) {
		if _, err := a.Lease(); err != nil {
			return err
		}
	}
	return nil
}

// KeepShort makes the lease short at once, and permanently.
func TestKeepShort(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		fixture.Measuring(t, s, fixture.One)
		var ev fixture.Events
		cfg := growing(s)
		cfg.OnEvent = ev.Add
		a := fixture.Start(t, cfg)
		fixture.IDs(t, a)
		fixture.Wait(9 * time.Hour)
		until := a.KeepShort()
		fixture.Wait(time.Second)
		l := fixture.Item(t, s, a.NodeID())
		if l.TTL != 15*time.Second || !l.ExpiresAt.Equal(until) || time.Until(until) < 6*time.Minute {
			t.Errorf("a lease of %v until %v, want 15 s until %v, which was asked for before and is at least 6 min ahead", l.TTL, l.ExpiresAt, until)
		}
		sent := 0
		renewals(s, &sent)
		fixture.Wait(time.Minute)
		if n := renewals(s, &sent); n < 10 {
			t.Errorf("%d renewals in a minute, want one in 5 s", n)
		}
		fixture.Wait(time.Hour)
		if l := fixture.Item(t, s, a.NodeID()); l.TTL != 15*time.Second || time.Until(l.ExpiresAt) > 15*time.Second {
			t.Errorf("a lease of %v until %v an hour later", l.TTL, time.Until(l.ExpiresAt))
		}
		if w := ev.Of(lease.EventWarning); len(w) != 1 || !strings.Contains(w[0].Err.Error(), "others watch") {
			t.Errorf("%v", w)
		}
		if a.KeepShort(); siblings.Unrenewed(a) > 8*time.Second {
			t.Errorf("renewed %v ago", siblings.Unrenewed(a))
		}
	})
}
