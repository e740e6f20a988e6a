package growth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// KeepShort renews at once even if a long renewal is in flight, that is, if its answer
// has not arrived yet.
func TestKeepShortBesideALongRenewal(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		a := fixture.Start(t, growing(s))
		fixture.IDs(t, a)
		s.Denied(true) // nobody counts, so nothing grows
		fixture.Wait(9 * time.Hour)
		fixture.Measuring(t, s, fixture.One)
		var kept, next time.Time
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			r, ok := w.(protocol.Renew)
			switch {
			case ok && !kept.IsZero() && next.IsZero():
				next = time.Now()
			case ok && r.TTL > time.Minute && kept.IsZero():
				kept = time.Now()
				if until := a.KeepShort(); !until.Equal(r.ExpiresAt) {
					t.Errorf("until %v, want %v", until, r.ExpiresAt)
				}
			}
			return res, err
		})
		fixture.Wait(15 * time.Minute)
		if kept.IsZero() || next.Sub(kept) > time.Second {
			t.Errorf("kept short at %v, and renewed at %v, want at once", kept, next)
		}
	})
}

// KeepShort also renews at once if a short renewal has followed a long one whose expiry
// has not passed.
func TestKeepShortAfterAShortRenewal(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		full := false
		fixture.Measuring(t, s, func() int {
			if full {
				return 60
			}
			return 1
		})
		a := fixture.Start(t, growing(s))
		fixture.IDs(t, a)
		fixture.Wait(9 * time.Hour)
		full = true
		before := 0
		for fixture.Item(t, s, a.NodeID()).TTL > 15*time.Second { // until a short renewal has been applied
			if renewals(s, &before); a.Left() < 9*time.Minute {
				a.RenewNow()
			}
			fixture.Wait(time.Second)
		}
		fixture.Wait(10 * time.Second) // the next renewal is postponed
		sent := 0
		renewals(s, &sent)
		until := a.KeepShort()
		fixture.Wait(time.Second)
		if n := renewals(s, &sent); n != 1 || time.Until(until) < time.Minute {
			t.Errorf("%d renewals in the second after it, want one; the old expiry counts for %v", n, time.Until(until))
		}
	})
}

// If the answer to a renewal comes after the deadline because the holder was frozen, the
// next renewal follows as soon as it would with a short lease.
func TestAnswerAfterAFreeze(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		fixture.Measuring(t, s, fixture.One)
		a := fixture.Start(t, growing(s))
		fixture.IDs(t, a)
		fixture.Wait(9 * time.Hour)
		frozen, thawed := false, make(chan struct{})
		s.On(func(_ context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			if !frozen {
				frozen = true
				fixture.Wait(20 * time.Minute)
				close(thawed)
			}
			return res, err
		})
		<-thawed
		fixture.Wait(6 * time.Second)
		if err := heldThroughout(a, 6*time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// If a read of the measurement is not answered, the holder does not lose its lease.
func TestMeasurementWithoutAnAnswer(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &silentPool{Network: fixture.NewNetwork(64)}
		cfg := growing(s)
		cfg.TTL, cfg.Guard, cfg.ClaimGuard = time.Second, 200*time.Millisecond, 100*time.Millisecond
		a := fixture.Start(t, cfg)
		fixture.IDs(t, a)
		s.silent = true
		for range 4 * 60 * 20 {
			if _, err := a.Lease(); err != nil {
				t.Fatal(err)
			}
			fixture.Wait(50 * time.Millisecond)
		}
	})
}

// silentPool is a network that, while it is silent, does not answer reads of the pool's
// item.
type silentPool struct {
	*fixture.Network
	silent bool
}

func (s *silentPool) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if s.silent {
		<-ctx.Done()
		return protocol.PoolItem{}, ctx.Err()
	}
	return s.Network.PoolItem(ctx, pool)
}

func (s *silentPool) EventualPoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	return s.PoolItem(ctx, pool)
}

// A holder reads the measurement at most once in 5 min. After a holder has counted, it
// need not read the measurement: its next renewal uses its own count.
func TestMeasurementsAreReadSeldom(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &readPool{Network: fixture.NewNetwork(64)}
		a := fixture.Start(t, growing(s))
		began := time.Now()
		fixture.IDs(t, a)
		fixture.Wait(150 * time.Second)
		s.takeReads() // forget the reads of the start
		var counted, grew time.Time
		// After each of the 37 reads in 4 h, the holder counts with a probability of one in
		// eight. So in one run of 140, it never counts.
		for time.Since(began) < 4*time.Hour || counted.IsZero() && time.Since(began) < 24*time.Hour {
			fixture.Wait(time.Second)
			p, err := s.Network.PoolItem(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			if p.Measured != nil && counted.IsZero() {
				counted = time.Now()
			}
			if grew.IsZero() && fixture.Item(t, s.Network, a.NodeID()).TTL > 15*time.Second {
				grew = time.Now()
			}
		}
		if counted.IsZero() || grew.Sub(counted) > 10*time.Second {
			t.Errorf("counted after %v, and grew %v later, want with the next renewal", counted.Sub(began), grew.Sub(counted))
		}
		reads := s.takeReads()
		for i := 1; i < len(reads); i++ {
			if d := reads[i].Sub(reads[i-1]); d < 5*time.Minute {
				t.Errorf("read again after %v, want 5 min at least", d)
			}
		}
		if n := len(reads); n < 20 {
			t.Errorf("read %d times in 4 h, want every 5 to 8 min", n)
		}
	})
}

// readPool remembers when the pool's item was read.
type readPool struct {
	*fixture.Network
	mu    sync.Mutex
	reads []time.Time // guarded by mu
}

// takeReads returns the times of the reads, and forgets them.
func (s *readPool) takeReads() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads := s.reads
	s.reads = nil
	return reads
}

func (s *readPool) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	s.mu.Lock()
	s.reads = append(s.reads, time.Now())
	s.mu.Unlock()
	return s.Network.PoolItem(ctx, pool)
}

// A count that took more than a minute is not stored, since holders may have come and
// gone meanwhile.
func TestCountIsVoidAfterAMinute(t *testing.T) {
	for name, c := range map[string]struct {
		takes  time.Duration
		stored bool
	}{"55 s": {55 * time.Second, true}, "61 s": {61 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := &slowPages{Network: fixture.NewNetwork(64), takes: c.takes}
				a := fixture.Start(t, growing(s))
				fixture.IDs(t, a)
				fixture.Wait(8 * time.Hour)
				p, err := s.PoolItem(t.Context(), "orders")
				if err != nil || (p.Measured != nil) != c.stored {
					t.Errorf("got the measurement %v, %v, want one: %t", p.Measured, err, c.stored)
				}
			})
		})
	}
}

// slowPages is a store that throttles reads of groups for some time, beginning with the
// first read of each count.
type slowPages struct {
	*fixture.Network
	takes time.Duration
	began time.Time
}

func (s *slowPages) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	if time.Since(s.began) > 2*time.Minute {
		s.began = time.Now()
	}
	if time.Since(s.began) < s.takes {
		return protocol.Group{}, errors.New("throttled")
	}
	return s.Network.Group(ctx, pool, n)
}

func (s *slowPages) EventualGroup(ctx context.Context, pool string, n int) (protocol.Group, error) {
	return s.Group(ctx, pool, n)
}

// A holder may have sent a long renewal before it read of an open widening, and so have
// requested more than the widening allows. The holder keeps its lease, whether the
// widener continues or has died.
func TestGrowthMeetsAWidening(t *testing.T) {
	for name, dead := range map[string]bool{"the widener goes on": false, "the widener is dead": true} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := &fixture.Network{Memory: leasetest.NewMemory("orders", 0)}
				if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 700, ExcludeBelow: 8, Narrow: true}); err != nil {
					t.Fatal(err)
				}
				fixture.Measuring(t, s, fixture.One)
				a := fixture.Start(t, growing(s))
				fixture.IDs(t, a)
				var begun atomic.Pointer[protocol.Widener]
				s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
					if r, ok := w.(protocol.Renew); ok && r.TTL > 15*time.Second && begun.Load() == nil {
						begun.Store(marked(t, s, fixture.Item(t, s, a.NodeID())))
					}
					return do()
				})
				fixture.Wait(150 * time.Second)
				for begun.Load() == nil {
					fixture.Wait(time.Second)
				}
				widener := begun.Load()
				if err := heldThroughout(a, time.Second); err != nil {
					t.Fatal(err)
				}
				if commit, ok := widener.Commit(); !ok {
					t.Fatal("a node ID is left")
				} else if !dead {
					poolWrite(t, s, commit)
				}
				if err := heldThroughout(a, 5*time.Minute); err != nil {
					t.Error(err)
				}
				p, err := s.PoolItem(t.Context(), "orders")
				if want := map[bool]protocol.WidenState{false: protocol.WidenDone, true: protocol.WidenVoid}[dead]; err != nil || p.Widening.State != want {
					t.Errorf("the widening is %+v, %v, want %s", p.Widening, err, want)
				}
				if l := fixture.Item(t, s, a.NodeID()); l.TTL == 15*time.Second {
					t.Errorf("it did not grow: %+v", l)
				}
			})
		})
	}
}

// marked begins a widening, and marks all node IDs. In a pool of 16,384 node IDs, that
// takes half a minute, and delays the beginning of the new width by as much.
func marked(t *testing.T, s *fixture.Network, held protocol.Lease) *protocol.Widener {
	poolWrite(t, s, protocol.OpenGroups{Pool: "orders", From: 1, To: 2})
	p, err := s.PoolItem(t.Context(), "orders")
	if err != nil {
		t.Error(err)
	}
	p = poolWrite(t, s, protocol.NextTry(p, []protocol.Lease{held}, time.Now(), 33*time.Second))
	w := protocol.NewWidener(p)
	for n := p.ExcludeBelow; n < p.ExistBelow; n++ {
		m := w.Mark(n, time.Now())
		if res, err := s.Memory.Write(t.Context(), m); err != nil || w.Heard(m, res) != nil {
			t.Error(res, err)
		}
	}
	return w
}

func poolWrite(t *testing.T, s *fixture.Network, w protocol.PoolWrite) protocol.PoolItem {
	res, err := s.Memory.WritePool(t.Context(), w)
	if err != nil || !res.Applied {
		t.Error(res, err)
		return protocol.PoolItem{}
	}
	return *res.Pool
}

// If an error names MaxTTL, the user looks for an option of that name. So if the wrong
// value is from the environment, the error names the environment variable instead.
func TestGrowthFromTheEnvironmentIsNamed(t *testing.T) {
	t.Setenv("NODELEASE_MAX_TTL", "15m")
	t.Setenv("NODELEASE_MAX_RESERVE", "10s")
	_, err := lease.Start(t.Context(), lease.Config{Store: fixture.NewNetwork(8), Pool: "orders", TTL: 20 * time.Minute})
	for _, want := range []string{"NODELEASE_MAX_TTL=15m0s: use TTL = 20m0s", "NODELEASE_MAX_RESERVE=10s is below", "or unset it for this process"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	_, err = lease.Start(t.Context(), lease.Config{Store: fixture.NewNetwork(8), Pool: "orders", TTL: 20 * time.Minute, MaxTTL: time.Minute, MaxReserve: time.Hour})
	if err == nil || !strings.Contains(err.Error(), "MaxTTL 1m0s: use TTL") || strings.Contains(err.Error(), "NODELEASE") {
		t.Errorf("got %v, want the option's own name", err)
	}
}

// An on-demand lease never grows, so environment variables for the other agents of a
// container cannot make its configuration wrong.
func TestOnDemandBesideGrowth(t *testing.T) {
	t.Setenv("NODELEASE_MAX_TTL", "1m")
	t.Setenv("NODELEASE_MAX_RESERVE", "2m")
	o, err := lease.NewOnDemand(lease.Config{Store: fixture.NewNetwork(8), Pool: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	_ = o.Close()
}

// An on-demand lease never grows, whatever its Config contains and however much room the
// pool has.
func TestOnDemandNeverGrows(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		fixture.Measuring(t, s, fixture.One)
		cfg := growing(s)
		cfg.MaxTTL, cfg.MaxReserve, cfg.Grow = time.Hour, 4*time.Hour, true
		o, err := lease.NewOnDemand(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		for range 200 {
			if err := o.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			fixture.Wait(time.Minute)
		}
		l, err := o.Lease()
		if err != nil {
			t.Fatal(err)
		}
		if l.TTL != 5*time.Minute || l.Renewal < 40 || time.Until(l.ReservedUntil) > 5*time.Minute+time.Second {
			t.Errorf("%+v, want a lease of 5 min that was renewed every 4", l)
		}
	})
}

// The pool of an old holder has filled up, so that its renewals are short again and all request
// the reservation of hours that it has. The answer to one of them is lost, and the next one
// does not arrive before the holder is closed. The node ID does not rest for hours.
func TestCloseOfAShortenedLeaseWithoutAnswers(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(64)
		fixture.Measuring(t, s, fixture.One)
		a := fixture.Start(t, growing(s))
		fixture.IDs(t, a)
		fixture.Wait(9 * time.Hour)
		a.KeepShort()
		fixture.Wait(time.Minute)
		before := fixture.Item(t, s, a.NodeID())
		if before.TTL > time.Minute || time.Until(before.ReservedUntil) < time.Hour {
			t.Fatalf("got %+v, want a short lease that is reserved for hours", before)
		}
		var tries atomic.Int64
		next := make(chan struct{})
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, renews := w.(protocol.Renew); !renews {
				return do()
			}
			if tries.Add(1) == 1 {
				return fixture.Lose(ctx, do)
			}
			close(next)
			return fixture.Hang(ctx)
		})
		<-next
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		l := fixture.Item(t, s, a.NodeID())
		if l.Holder != "" || l.Renewal != before.Renewal+1 || l.ReservedUntil.After(time.Now()) {
			t.Errorf("got %+v, want a release of renewal %d, up to %v at the latest", l, before.Renewal+1, time.Now())
		}
	})
}
