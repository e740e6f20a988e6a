package lease_test

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
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// These tests are for network faults during a holder's renewals.

// The answers to renewals are lost for longer than the lease, although the writes are
// applied. The refusal of a repeated renewal, or the next answer, confirms the lease. The
// node ID is not lost, and the agent sends no reads.
func TestLostAnswersOfRenewals(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		s.On(func(ctx context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Lose(ctx, do)
		})
		fixture.Wait(time.Minute)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("got %v, want lease.ErrSuspended", err)
		}
		s.On(nil)
		fixture.Wait(3 * time.Second)
		if l, err := a.Lease(); err != nil || l.Version != 1 {
			t.Error(l, err)
		}
	})
}

// Each renewal is delivered twice, and the answer is the refusal of the second delivery.
// The refusal confirms the attempt, and the lease is measured from the time when the
// attempt was sent.
func TestRenewalDeliveredTwice(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		var ev fixture.Events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.Add
		a := fixture.Start(t, cfg)
		s.On(func(_ context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, err := do(); err != nil {
				return protocol.Result{}, err
			}
			time.Sleep(900 * time.Millisecond) // virtual
			return do()
		})
		fixture.Wait(time.Minute)
		if _, err := a.Lease(); err != nil {
			t.Error(err)
		}
		for _, e := range ev.Of(lease.EventRenewed) {
			if want := 13*time.Second - 900*time.Millisecond; e.Left != want {
				t.Errorf("%v left, want %v", e.Left, want)
			}
		}
		if len(ev.Of(lease.EventRenewed)) < 9 || len(ev.Of(lease.EventLost)) > 0 {
			t.Error(ev.Kinds(lease.EventRenewed, lease.EventLost))
		}
		s.On(nil)
	})
}

// A slow answer leaves less time, not more: the deadline is measured from a time before
// the request was sent.
func TestSlowAnswers(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		s.On(func(_ context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			time.Sleep(999 * time.Millisecond) // virtual
			return res, err
		})
		began := time.Now()
		a := fixture.Start(t, fixture.Config(s))
		s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Hang(ctx)
		})
		fixture.Wait(time.Until(began.Add(13*time.Second - time.Millisecond)))
		if _, err := a.Lease(); err != nil {
			t.Error(err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("got %v, want lease.ErrSuspended", err)
		}
		s.On(nil)
	})
}

// A renewal requests a long reservation, because the clock was ahead for a moment. It is
// delivered after later renewals were confirmed, and is refused. Even if it had been
// applied just before a later renewal, that renewal would not have lowered the
// reservation.
func TestReservedUntilNeverFalls(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		clock := leasetest.NewClock(0)
		cfg := fixture.Config(s)
		cfg.Clock = clock
		fixture.Start(t, cfg)
		var late func() (protocol.Result, error)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Renew); ok && late == nil {
				late = do
				return fixture.Hang(ctx)
			}
			return do()
		})
		clock.Step(time.Hour) // forward, then back
		fixture.Wait(8 * time.Second)
		clock.Step(-time.Hour)
		fixture.Wait(20 * time.Second)
		if late == nil {
			t.Fatal("no renewal was sent")
		}
		highest := time.Time{}
		for _, w := range fixture.WritesOf[protocol.Renew](s) {
			if w.ReservedUntil.Before(highest) {
				t.Fatalf("renewal %d asks for %v after %v", w.Renewal, w.ReservedUntil, highest)
			}
			highest = w.ReservedUntil
		}
		before := fixture.Item(t, s, 0)
		if res, err := late(); err != nil || res.Applied {
			t.Errorf("a late renewal was applied: %+v, %v", res, err)
		}
		if got := fixture.Item(t, s, 0); got.ReservedUntil.Before(before.ReservedUntil) {
			t.Errorf("reserved until %v, was %v", got.ReservedUntil, before.ReservedUntil)
		}
	})
}

// After the wall clock has stepped back, renewals do not request an earlier expiry.
func TestWallStepsBack(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		clock := leasetest.NewClock(0)
		cfg := fixture.Config(s)
		cfg.Clock = clock
		a := fixture.Start(t, cfg)
		for range 20 {
			clock.Step(-time.Minute)
			before := fixture.Item(t, s, 0)
			fixture.Wait(8 * time.Second)
			l, err := a.Lease()
			if err != nil || !l.ExpiresAt.After(before.ExpiresAt) || !l.ReservedUntil.After(before.ReservedUntil) {
				t.Fatalf("%+v, %v, was %+v", l, err, before)
			}
		}
	})
}

// If a lease is reaped or released by force, it is lost, even if it was not suspended.
func TestFreedByOthers(t *testing.T) {
	for _, version := range []int64{1, 2} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			a := fixture.Start(t, fixture.Config(s))
			g := fixture.IDs(t, a)
			fixture.Wait(time.Second)
			res, err := s.Memory.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: 0}, Version: version})
			if err != nil || res.Applied != (version == 1) {
				t.Fatal(res, err)
			}
			fixture.Wait(8 * time.Second)
			if lost := errors.Is(a.Err(), lease.ErrLost); lost != res.Applied {
				t.Error(a.Err())
			}
			// The loss fences the generators, although the deadline has not passed.
			if id, err := g.Next(); (err != nil) != res.Applied {
				t.Error(id, err)
			}
		})
	}
}

// The reason of a loss names an operator or the reaper only if no other process had the
// node ID meanwhile.
func TestTakenAndReleased(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		s.On(func(context.Context, protocol.Write, func() (protocol.Result, error)) (protocol.Result, error) {
			return protocol.Result{}, errors.New("cut off")
		})
		fixture.Wait(time.Minute)
		if err := fixture.Start(t, fixture.Config(s.Memory)).Close(); err != nil {
			t.Fatal(err)
		}
		s.On(nil)
		fixture.Wait(8 * time.Second)
		if err := a.Err(); !errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "taken by another process") {
			t.Errorf("got %v, want a loss to another process", err)
		}
	})
}

// The holder of a retired node ID may finish, and nobody claims the node ID afterwards.
func TestRetiredHolderFinishes(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		if _, err := s.Memory.Write(t.Context(), protocol.Retire{Key: protocol.Key{Pool: "orders", NodeID: 0}, Retired: true}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Minute)
		if _, err := a.Lease(); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if _, err := lease.Start(t.Context(), fixture.Config(s)); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Errorf("got %v, want lease.ErrPoolExhausted", err)
		}
	})
}

// An attempt never lasts longer than the time until the deadline.
func TestAttemptsFitTheTimeLeft(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := fixture.Config(s)
		cfg.TTL, cfg.Guard, cfg.ClaimGuard = time.Second, 200*time.Millisecond, 100*time.Millisecond
		a := fixture.Start(t, cfg)
		began := time.Now() // also the time of the claim, since virtual time did not advance
		s.On(func(ctx context.Context, w protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
			if left := time.Until(began.Add(800 * time.Millisecond)); left > 0 {
				if end, ok := ctx.Deadline(); !ok || time.Until(end) > left {
					t.Errorf("an attempt may last %v with %v left", time.Until(end), left)
				}
			}
			return fixture.Hang(ctx)
		})
		fixture.Wait(2 * time.Second)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("got %v, want lease.ErrSuspended", err)
		}
		s.On(nil)
	})
}

// A generator uses the deadline of each renewal, not only that of the claim.
func TestGeneratorIsFencedAtTheRenewedDeadline(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		var ev fixture.Events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.Add
		a := fixture.Start(t, cfg)
		g := fixture.IDs(t, a)
		fixture.Wait(12 * time.Second)
		renewed := ev.Of(lease.EventRenewed)
		if len(renewed) == 0 {
			t.Fatal("no renewal in 12 s")
		}
		last := renewed[len(renewed)-1]
		s.SetOutage(errors.New("away"))
		fixture.Wait(time.Until(last.Time.Add(last.Left - time.Millisecond)))
		if _, err := g.Next(); err != nil {
			t.Errorf("a millisecond before the deadline: %v", err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := g.Next(); !errors.Is(err, snowflake.ErrFenced) {
			t.Errorf("at the deadline: %v", err)
		}
	})
}

// With Stop, the lease is lost at its deadline. If the answer to a renewal comes later,
// it does not bring the lease back, and no event reports a renewal.
func TestRenewalAnsweredAfterTheEnd(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		var ev fixture.Events
		cfg := fixture.Config(s)
		cfg.OnExpiry, cfg.OnEvent = lease.Stop, ev.Add
		a := fixture.Start(t, cfg)
		answered := make(chan struct{})
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			if _, ok := w.(protocol.Renew); ok {
				<-a.Done()
				close(answered)
				s.On(nil)
			}
			return res, err
		})
		<-answered
		fixture.Wait(time.Minute)
		if got := ev.Of(lease.EventRenewed, lease.EventResumed); len(got) != 0 {
			t.Errorf("after the end: %+v", got)
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrLost) {
			t.Errorf("got %v, want lease.ErrLost", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The wall clock is an hour ahead for a while. Once it is right again, the clock of
// renewals is right too. Times that were requested meanwhile are not lowered, since a
// late request may still contain them. Until a renewal is confirmed, stamps are ahead by
// at most the length of a lease.
func TestClockGlitchHeals(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		clock := leasetest.NewClock(0)
		cfg := fixture.Config(s)
		cfg.Clock, cfg.Reserve = clock, 3*time.Hour
		a := fixture.Start(t, cfg)
		g := fixture.IDs(t, a)
		clock.Step(time.Hour)
		id, err := g.Next()
		if ahead := time.Until(id.Time()); err != nil || ahead > 16*time.Second {
			t.Errorf("got an ID %v ahead, %v; want at most TTL + ClaimGuard", ahead, err)
		}
		<-a.Renewed()
		clock.Step(-time.Hour)
		asked := fixture.Item(t, s, 0)
		if ahead := time.Until(asked.ExpiresAt); ahead < time.Hour {
			t.Fatalf("the renewal asked for %v, want more than an hour", ahead)
		}
		fixture.Wait(30 * time.Minute)
		if off := time.Until(a.Timeline().Now()); off.Abs() > 20*time.Millisecond {
			t.Errorf("the clock of renewals is off by %v", off)
		}
		if now := fixture.Item(t, s, 0); !now.ExpiresAt.Equal(asked.ExpiresAt) || now.Renewal < 300 {
			t.Errorf("got %+v, want renewals that ask for %v again", now, asked.ExpiresAt)
		}
		fixture.Wait(31 * time.Minute)
		if ahead := time.Until(fixture.Item(t, s, 0).ExpiresAt); ahead > 16*time.Second {
			t.Errorf("an hour later renewals still ask for %v", ahead)
		}
		if _, err := g.Next(); err != nil {
			t.Error(err)
		}
	})
}

// After an outage of hours, the first answer confirms only what was requested at the
// beginning of the outage. Another renewal follows at once and resumes the lease.
func TestResumesAfterAnOutageOfHours(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		var ev fixture.Events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.Add
		a := fixture.Start(t, cfg)
		s.SetOutage(errors.New("away"))
		fixture.Wait(3 * time.Hour)
		before := len(ev.Of(lease.EventRenewed))
		s.SetOutage(nil)
		fixture.Wait(6 * time.Second) // a suspended holder retries about every 2 s
		renewed, resumed := ev.Of(lease.EventRenewed)[before:], ev.Of(lease.EventResumed)
		if len(renewed) < 2 || len(resumed) != 1 || resumed[0].Time.Sub(renewed[0].Time) > 100*time.Millisecond {
			t.Errorf("got renewals %+v and %+v, want the second one at once, and the lease resumed", renewed, resumed)
		}
		if l, err := a.Lease(); err != nil || time.Until(l.ReservedUntil) < 10*time.Second {
			t.Errorf("got %+v, %v, want it held", l, err)
		}
		sent := fixture.WritesOf[protocol.Renew](s)
		for _, w := range sent {
			if len(w.Asked) > 20 {
				t.Fatalf("renewal %d may follow %d values, want at most 20", w.Renewal, len(w.Asked))
			}
		}
		if len(sent) < 1000 {
			t.Errorf("%d renewals in 3 h, want more", len(sent))
		}
	})
}

// The first renewal after a claim, or after an outage of any length, comes at a random
// time in an interval. So agents that start or come back at the same moment are out of
// step at once.
func TestFirstRenewal(t *testing.T) {
	const fleet = 200
	for what, away := range map[string]time.Duration{"a start": 0, "an outage that the leases outlive": 8 * time.Second, "an outage": time.Minute} {
		t.Run(what, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(fleet)
				var down atomic.Bool
				s.On(func(_ context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
					if down.Load() {
						return protocol.Result{}, errors.New("no answer")
					}
					return do()
				})
				var mu sync.Mutex
				last, pauses := map[int]time.Time{}, map[int]time.Duration{}
				cfg := fixture.Config(s)
				cfg.OnEvent = func(e lease.Event) {
					mu.Lock()
					defer mu.Unlock()
					switch n := e.Lease.NodeID; e.Kind {
					case lease.EventClaimed, lease.EventRenewed:
						d := time.Since(last[n])
						// After a long outage a second renewal follows at once, since the first one
						// reserves too little.
						if _, known := pauses[n]; !known && !last[n].IsZero() && d > time.Second/10 {
							pauses[n] = d
						}
						last[n] = time.Now()
					}
				}
				for range fleet {
					fixture.Start(t, cfg)
				}
				if away > 0 {
					down.Store(true)
					fixture.Wait(away)
					mu.Lock()
					clear(last)
					clear(pauses)
					mu.Unlock()
					down.Store(false)
				}
				fixture.Wait(20 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				fifths := [5]int{}
				for n, d := range pauses {
					if d < 2500*time.Millisecond || d > 7501*time.Millisecond {
						t.Errorf("node %d renews after %v, want half of 5 s to one and a half", n, d)
						continue
					}
					fifths[min(int((d-2500*time.Millisecond)/time.Second), 4)]++
				}
				for _, n := range fifths {
					if len(pauses) != fleet || n < fleet/20 || n > fleet*2/5 {
						t.Fatalf("%d agents by fifth of the interval: %v, want %d spread evenly", len(pauses), fifths, fleet)
					}
				}
			})
		})
	}
}

// In a long outage, a renewal asks for no more than the last of a limited number of values. Once
// one is confirmed, the agent renews at once, so that it has reserved as much as at other times.
func TestRenewsAtOnceAfterALongOutage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := fixture.Config(s)
		cfg.Reserve = time.Hour
		a := fixture.Start(t, cfg)
		s.SetOutage(errors.New("away"))
		fixture.Wait(10 * time.Minute)
		renewed := a.Renewed()
		s.SetOutage(nil)
		<-renewed
		fixture.Wait(time.Millisecond)
		if left := time.Until(fixture.Item(t, s, 0).ReservedUntil); left < time.Hour-time.Second {
			t.Errorf("got %v reserved just after the outage, want an hour", left)
		}
	})
}
