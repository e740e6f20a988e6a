package naps_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Two pauses, each included by a different clock, are together longer than the lease.
// Afterwards the lease may not be relied on.
func TestOnDemandEachPauseByAnotherClock(t *testing.T) {
	const pause = 200 * time.Second
	byMono := func(d *fixture.Dozy) { d.WallLag.Add(int64(pause)) }
	byWall := func(d *fixture.Dozy) { d.MonoLag.Add(int64(pause)) }
	setBack := func(d *fixture.Dozy) { d.Jump(-2 * pause) }
	for name, changes := range map[string][]func(*fixture.Dozy){
		"the monotonic clock, then the wall clock":              {byMono, byWall},
		"the wall clock, then the monotonic clock":              {byWall, byMono},
		"the wall clock, also after it was set back":            {setBack, byWall, byWall},
		"the wall clock, which is set back, then the monotonic": {byWall, setBack, byMono},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				o, d := fixture.OnDemand(t, fixture.NewNetwork(1))
				fixture.Refresh(t, o)
				for _, change := range changes {
					lags := d.MonoLag.Load() + d.WallLag.Load()
					change(d)
					if d.MonoLag.Load()+d.WallLag.Load() == lags+int64(pause) {
						fixture.Wait(pause)
					}
					_, _ = o.Lease() // each use reads the clocks
				}
				if _, err := o.Lease(); !errors.Is(err, lease.ErrSuspended) {
					t.Errorf("Lease of 5 min after two pauses of %v: got %v, want ErrSuspended", pause, err)
				}
			})
		})
	}
}

// If a claim is settled after a pause, its age is measured with the outside clock, even
// if only that clock shows the pause.
func TestOnDemandClaimInDoubtByTheOutsideClock(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		claimed, believed := false, errors.New("nobody looked")
		var o *lease.OnDemand
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Renew); ok {
				_, believed = o.Lease()
			} else if !claimed {
				claimed = true
				return fixture.Lose(ctx, do)
			}
			return do()
		})
		o, d := fixture.OnDemand(t, timeless{s})
		o.Witness(time.Now())
		brief(t, o)
		d.Freeze(10*time.Minute, false)
		o.Witness(time.Now())
		fixture.Refresh(t, o)
		if !errors.Is(believed, lease.ErrSuspended) {
			t.Errorf("a claim of 10 min ago: got %v before its renewal, want ErrSuspended", believed)
		}
		if _, err := o.Lease(); err != nil {
			t.Errorf("after the renewal: got %v, want nil", err)
		}
	})
}

// While the lease is good, a renewal that is not answered is not an error for any caller
// that waits for it.
func TestOnDemandRenewalWithoutAnAnswerFailsNobody(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		o, _ := fixture.OnDemand(t, s)
		fixture.Refresh(t, o)
		fixture.Wait(4 * time.Minute)
		s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Hang(ctx)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		fixture.Together(5, func(int) {
			if err := o.Refresh(ctx); err != nil {
				t.Errorf("with a minute left: got %v, want nil", err)
			}
		})
	})
}

// While the last holder's reservation has not ended, Refresh does not succeed, and it
// sends no renewals.
func TestOnDemandEarly(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		if _, err := s.Memory.Write(t.Context(), protocol.Raise{Key: protocol.Key{Pool: "orders"}, To: time.Now().Add(900 * time.Millisecond)}); err != nil {
			t.Fatal(err)
		}
		o, d := fixture.OnDemand(t, s)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if err := o.Refresh(ctx); !errors.Is(err, lease.ErrSuspended) {
				t.Errorf("a node ID that is reserved for its last holder: got %v, want ErrSuspended", err)
			}
			cancel()
		}
		d.Jump(-time.Hour)
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrClockBehind) {
			t.Errorf("with a clock that was set back: got %v, want ErrClockBehind", err)
		}
		d.Jump(time.Hour)
		fixture.Refresh(t, o)
		if _, err := o.Lease(); err != nil {
			t.Errorf("after the wait: got %v, want a lease", err)
		}
		if got := counts(s); got[0] != 1 || got[1] > 1 { // the clock was set back and forward, which may cost one renewal
			t.Errorf("claims and renewals: got %v, want 1 and 1 at most", got)
		}
	})
}

// Generator returns before its deadline even if the pool's layout cannot be read.
func TestOnDemandGeneratorDeadline(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := mute{Network: fixture.NewNetwork(1)}
		o, _ := fixture.OnDemand(t, &s)
		fixture.Refresh(t, o)
		s.muted = true
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := o.Generator(ctx); !errors.Is(err, lease.ErrSuspended) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrSuspended and the deadline", err)
		}
		if took := time.Since(began); took > 2800*time.Millisecond {
			t.Errorf("a call with 3 s took %v", took)
		}
		s.muted = false
		if _, err := o.Generator(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// mute is a network that, while it is muted, does not answer reads of the pool's item.
type mute struct {
	*fixture.Network
	muted bool
}

func (s *mute) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if s.muted {
		<-ctx.Done()
		return protocol.PoolItem{}, ctx.Err()
	}
	return s.Network.PoolItem(ctx, pool)
}

// If a store does not return from a request that was given up, later calls still return
// in time.
func TestOnDemandBehindARequestThatDoesNotEnd(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		end := make(chan struct{})
		fixture.Once[protocol.Claim](s, func(context.Context, func() (protocol.Result, error)) (protocol.Result, error) {
			<-end
			return protocol.Result{}, errors.New("late")
		})
		o, _ := fixture.OnDemand(t, s)
		brief(t, o)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := o.Refresh(ctx); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("got %v, want ErrSuspended", err)
		}
		if took := time.Since(began); took > 2800*time.Millisecond {
			t.Errorf("a call with 3 s took %v", took)
		}
		close(end)
		synctest.Wait()
		fixture.Refresh(t, o)
	})
}

// If a widening stays open, and the agent's role may not end it, leases stay short. Even
// so, not every use sends a request.
func TestOnDemandBesideAnOpenWidening(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := capped{fixture.NewNetwork(4), time.Now().Add(time.Minute)}
		s.Denied(true)
		o, _ := fixture.OnDemand(t, s)
		fixture.Refresh(t, o)
		before := s.Writes()
		for range 50 {
			fixture.Refresh(t, o)
			fixture.Wait(100 * time.Millisecond)
		}
		if got := s.Writes() - before; got > 2 {
			t.Errorf("writes in 5 s of use: got %d, want 2 at most", got)
		}
	})
}

// capped is the table of a pool with an open widening, whose width begins at the time
// from.
type capped struct {
	*fixture.Network
	from time.Time
}

func (s capped) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.Network.PoolItem(ctx, pool)
	p.Widening.State, p.Widening.Try, p.Widening.From = protocol.WidenOpen, 1, s.from
	return p, err
}

// The process was copied while its claim was in doubt. The original has since settled the
// claim and renewed. When the copy ends, it does not release the node ID.
func TestOnDemandCopyOfAClaimInDoubtEnds(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		fixture.Once[protocol.Claim](s, func(ctx context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Lose(ctx, do)
		})
		o, _ := fixture.OnDemand(t, s)
		brief(t, o)
		l := fixture.Item(t, s, 0)
		until := l.ReservedUntil.Add(4 * time.Minute) // reserved by the original, which may stamp until then
		res, err := s.Memory.Write(t.Context(), protocol.Renew{
			Key: protocol.Key{Pool: "orders"}, Session: l.Holder, Version: l.Version, Renewal: 1,
			ExpiresAt: until, ReservedUntil: until, Confirmed: l.ReservedUntil,
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if got := fixture.Item(t, s, 0); got.Holder != l.Holder || !got.ReservedUntil.Equal(until) {
			t.Errorf("got %+v, want it held by the original, and reserved until %v", got, until)
		}
	})
}

// A claim with a clock that is 1.4 s ahead, which is within the limit, accepts a node ID that
// is reserved for its last holder for another 2.2 s. Then the clock is put right. The call
// waits for the end of the reservation, and does not ask anybody to repair the clock.
func TestClockPutRightAfterAClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, clock := fixture.NewNetwork(1), leasetest.NewClock(1400*time.Millisecond)
		reserved := time.Now().Add(2200 * time.Millisecond)
		if _, err := s.Memory.Write(t.Context(), protocol.Raise{Key: protocol.Key{Pool: "orders"}, To: reserved}); err != nil {
			t.Fatal(err)
		}
		fixture.Once[protocol.Claim](s, func(_ context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			clock.Step(-1400 * time.Millisecond)
			return res, err
		})
		cfg := fixture.Config(fixture.ToldTime{Network: s})
		cfg.Clock = clock
		o, err := lease.NewOnDemand(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.Close() })
		fixture.Refresh(t, o)
		if _, err := o.Lease(); err != nil || time.Now().Before(reserved) {
			t.Errorf("got %v at %v, want a lease after %v", err, time.Now(), reserved)
		}
	})
}
