package clocks_test

import (
	"context"
	"errors"
	"fmt"
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

// The wall clock is an hour ahead for a while, in a span of two hours. Stamps follow the
// wall clock only if a renewal is confirmed and either the store's clock agrees or the
// store sends no time. Once the wall clock is right again, the clock of renewals is right
// too. Times that were already requested stay as they are.
func TestGlitchOfAnHour(t *testing.T) {
	for name, c := range map[string]struct{ renewed, tells bool }{
		"between two renewals": {}, "with a renewal": {renewed: true}, "with a renewal, of a store that tells its time": {renewed: true, tells: true},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				mem, clock := leasetest.NewMemory("orders", 1), leasetest.NewClock(0)
				cfg := fixture.Config(mem)
				if c.tells {
					cfg.Store = fixture.ServerTime{Memory: mem}
				}
				followed := c.renewed && !c.tells
				cfg.TTL, cfg.Reserve, cfg.Clock = 15*time.Second, 2*time.Hour, clock
				a := fixture.Start(t, cfg)
				g, err := snowflake.New(a)
				if err != nil {
					t.Fatal(err)
				}
				ahead := func() time.Duration {
					t.Helper()
					id, err := g.Next()
					if err != nil {
						t.Fatalf("Next: got %v, want an ID", err)
					}
					return time.Until(id.Time())
				}
				ahead()
				<-a.Renewed() // the renewal after this one is 4.5 to 5.5 s away
				if c.renewed {
					fixture.Wait(2 * time.Second)
				}
				clock.Step(time.Hour)
				fixture.Wait(2 * time.Second)
				if got := ahead(); got > 0 {
					t.Errorf("stamps before a renewal: got %v ahead of the time, want none", got)
				}
				if c.renewed {
					fixture.Wait(2 * time.Second)
					if got, want := ahead(), 59*time.Minute; followed && got < want {
						t.Errorf("stamps after a renewal: got %v ahead, want %v at least: the clock of the renewal", got, want)
					} else if c.tells && got > 0 {
						t.Errorf("stamps after a renewal: got %v ahead, want none: the store's clock disagrees", got)
					}
				}
				asked := lastOf(t, mem).ReservedUntil
				clock.Step(-time.Hour)
				fixture.Wait(6 * time.Second) // one renewal
				if got := time.Until(a.Timeline().Now()); got != 0 {
					t.Errorf("the clock of renewals: got %v ahead, want 0", got)
				}
				if got := lastOf(t, mem).ReservedUntil; got.Before(asked) {
					t.Errorf("reserved until: got %v after %v was asked for", got, asked)
				}
				if followed {
					if err := a.Timeline().Check(); err == nil {
						t.Error("Check after stamps of the future: got nil, want that the clock is behind")
					}
					fixture.Wait(time.Hour)
				}
				fixture.Wait(20 * time.Second)
				if got := ahead(); got > 0 || got < -10*time.Millisecond {
					t.Errorf("stamps in the end: got %v ahead, want the time", got)
				}
			})
		})
	}
}

// The wall clock of a busy holder that is eight hours old is an hour ahead for two
// seconds. The holder can make IDs all the time, even if it renews during these two
// seconds, and no stamp is ahead.
func TestGlitchOfAnOldHolder(t *testing.T) {
	for name, c := range map[string]struct{ renews bool }{"between two renewals": {false}, "with a renewal": {true}} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s, clock := fixture.NewNetwork(64), leasetest.NewClock(0)
				fixture.Measuring(t, s, fixture.One)
				cfg := fixture.Config(fixture.ToldTime{Network: s})
				cfg.Clock = clock
				a := fixture.Start(t, cfg)
				g := fixture.IDs(t, a)
				fixture.Wait(8 * time.Hour)
				if l := fixture.Item(t, s, a.NodeID()); l.TTL != 15*time.Minute {
					t.Fatalf("a lease of %v, want 15 min", l.TTL)
				}
				last := snowflake.ID(0)
				for n := range 600 { // in tenths of a second
					switch n {
					case 10:
						clock.Step(time.Hour)
					case 20:
						if c.renews {
							a.RenewNow()
						}
					case 30:
						clock.Step(-time.Hour)
					}
					id, err := g.Next()
					if err != nil || id <= last {
						t.Fatalf("%v after the clock jumped: got %v, %v, want a larger ID", time.Duration(n-10)*time.Second/10, id, err)
					}
					if off := time.Until(id.Time()); off > 0 || off < -10*time.Millisecond {
						t.Fatalf("%v after the clock jumped: stamped %v from the time", time.Duration(n-10)*time.Second/10, off)
					}
					last = id
					fixture.Wait(time.Second / 10)
				}
				if l, err := a.Lease(); err != nil || c.renews != (time.Until(l.ExpiresAt) > 50*time.Minute) {
					t.Errorf("%+v, %v: want it held, and for an hour by the table with a renewal", l, err)
				}
			})
		})
	}
}

// A clock that was an hour behind is put right. The agent cannot tell this from a clock
// that jumps ahead. Stamps follow the clock after the first renewal for which the store's
// clock agrees.
func TestClockIsPutRight(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		mem, clock := leasetest.NewMemory("orders", 1), leasetest.NewClock(0)
		store := &tellsLater{Memory: mem}
		cfg := fixture.Config(store)
		cfg.TTL, cfg.Reserve, cfg.Clock = 15*time.Second, 2*time.Hour, clock
		a := fixture.Start(t, cfg)
		g, err := snowflake.New(a)
		if err != nil {
			t.Fatal(err)
		}
		stamp := func() time.Duration {
			t.Helper()
			id, err := g.Next()
			if err != nil {
				t.Fatalf("Next: got %v, want an ID", err)
			}
			return id.Time().Sub(clock.Wall())
		}
		<-a.Renewed()
		store.off.Store(int64(time.Hour))
		store.deaf.Store(true)
		clock.Step(time.Hour)
		fixture.Wait(12 * time.Second) // two renewals
		if got, most := stamp(), -58*time.Minute; got > most {
			t.Errorf("stamps while the store does not answer: got %v from the clock, want at most %v", got, most)
		}
		store.deaf.Store(false)
		fixture.Wait(6 * time.Second)
		if got := stamp(); got.Abs() > 10*time.Millisecond {
			t.Errorf("stamps in the end: got %v from the clock, want the time", got)
		}
	})
}

// tellsLater is a store whose clock is off. While it is deaf, it does not answer reads of
// the pool's item.
type tellsLater struct {
	*leasetest.Memory
	off  atomic.Int64
	deaf atomic.Bool
}

func (s *tellsLater) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if s.deaf.Load() {
		return protocol.PoolItem{}, errors.New("no answer")
	}
	return fixture.ServerTime{Memory: s.Memory, Off: time.Duration(s.off.Load())}.PoolItem(ctx, pool)
}

// glitching is a store that sends its time. Its first write is answered just as the wall
// clock jumps an hour ahead.
type glitching struct {
	fixture.ServerTime
	clock *leasetest.Clock
	once  sync.Once
}

func (s *glitching) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	res, err := s.ServerTime.Write(ctx, w)
	s.once.Do(func() { s.clock.Step(time.Hour) })
	return res, err
}

// The span is bound while the wall clock is an hour ahead. Once the wall clock is right
// again and the store's clock agrees, the second renewal after that follows the wall
// clock. If the wall clock is set back and the store's clock disagrees, renewals do not
// follow the wall clock, since other agents would find the lease expired.
func TestClaimInAGlitch(t *testing.T) {
	for name, c := range map[string]struct {
		step, want time.Duration // the step back, and the expected clock of renewals, relative to the real time
	}{
		"put right": {-time.Hour, 0}, "put right but for a second": {-time.Hour - time.Second, 0}, "set back": {-2 * time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				mem, clock := leasetest.NewMemory("orders", 1), leasetest.NewClock(0)
				cfg := fixture.Config(&glitching{ServerTime: fixture.ServerTime{Memory: mem}, clock: clock})
				cfg.Clock = clock
				a := fixture.Start(t, cfg)
				if ahead := time.Until(a.Timeline().Now()); ahead < 59*time.Minute {
					t.Fatalf("claimed %v ahead, want an hour", ahead)
				}
				<-a.Renewed() // this renewal requested times that are an hour later
				clock.Step(c.step)
				asked := lastOf(t, mem).ExpiresAt
				fixture.Wait(6 * time.Second) // one renewal
				if got := time.Until(a.Timeline().Now()); (got - c.want).Abs() > 1100*time.Millisecond {
					t.Errorf("the clock of renewals: got %v ahead, want %v", got, c.want)
				}
				held := lastOf(t, mem)
				if held.ExpiresAt.Before(asked) || time.Until(asked) < time.Hour {
					t.Errorf("expires at %v after %v was asked for, want an hour and no less", held.ExpiresAt, asked)
				}
				fixture.Wait(2 * time.Minute)
				if _, err := a.Lease(); err != nil {
					t.Errorf("two minutes later: got %v, want it held", err)
				}
				if now := lastOf(t, mem); now.ExpiresAt.Equal(held.ExpiresAt) != (c.want == 0) {
					t.Errorf("two minutes later it expires at %v, and at %v before", now.ExpiresAt, held.ExpiresAt)
				}
			})
		})
	}
}

func lastOf(t *testing.T, mem *leasetest.Memory) protocol.Lease {
	t.Helper()
	l, err := mem.Get(t.Context(), "orders", 0)
	if err != nil || l == nil {
		t.Fatal(l, err)
	}
	return *l
}

// glitched is a store whose first claim is sent by a clock that is an hour ahead. The claim
// takes over a reservation.
type glitched struct {
	*fixture.Network
	until time.Time // the end of that reservation
	node  int       // the node ID that was claimed; -1 before
	mute  time.Time // later claims get no answer until then
}

// glitchAtClaim returns such a store with size node IDs, and a reservation of the given
// length. If ahead is not
// nil, it is called when the claim arrives, and sets the clock of the claimant an hour ahead.
// Otherwise that clock is right again before the answer.
func glitchAtClaim(t *testing.T, size int, reserved time.Duration, ahead func()) *glitched {
	s := &glitched{Network: fixture.NewNetwork(size), until: protocol.Trunc(time.Now().Add(reserved)), node: -1}
	s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
		c, ok := w.(protocol.Claim)
		switch {
		case ok && s.node >= 0 && time.Now().Before(s.mute):
			return protocol.Result{}, errors.New("no answer")
		case !ok || s.node >= 0:
			return do()
		}
		s.node = c.NodeID
		if res, err := s.Memory.Write(ctx, protocol.Raise{Key: c.Key, To: s.until}); err != nil || !res.Applied {
			t.Error(res, err)
		}
		if ahead != nil {
			ahead()
		}
		c.At, c.ExpiresAt, c.ReservedUntil = c.At.Add(time.Hour), c.ExpiresAt.Add(time.Hour), c.ReservedUntil.Add(time.Hour)
		return s.Memory.Write(ctx, c)
	})
	return s
}

// The wall clock is an hour ahead when an agent claims a node ID that is reserved for
// almost as long. Once the clock is right, the lease is lost, and the agent claims the
// other node ID. The first node ID stays reserved until after the last ID that was made
// with it.
func TestClaimDuringAGlitch(t *testing.T) {
	for _, stamps := range []bool{false, true} {
		t.Run(fmt.Sprintf("stamps %v", stamps), func(t *testing.T) { claimDuringAGlitch(t, stamps) })
	}
}

func claimDuringAGlitch(t *testing.T, stamps bool) {
	fixture.Virtual(t, func(t *testing.T) {
		clock := leasetest.NewClock(0)
		s := glitchAtClaim(t, 2, 50*time.Minute, func() { clock.Step(time.Hour) })
		reserved := s.until
		cfg := fixture.Config(fixture.ToldTime{Network: s.Network})
		cfg.Clock, cfg.OnLost = clock, lease.Reacquire
		a := fixture.Start(t, cfg)
		if _, err := a.Lease(); err != nil || a.NodeID() != s.node {
			t.Fatalf("during the glitch: got node ID %d, %v, want %d", a.NodeID(), err, s.node)
		}
		if stamps {
			g, err := snowflake.New(a, snowflake.WithLayout(snowflake.Wide16()))
			if err != nil {
				t.Fatal(err)
			}
			id, err := g.Next()
			stamped := g.Layout().Decompose(id).Time
			if err != nil || !stamped.After(reserved) {
				t.Fatalf("during the glitch: got an ID of %v, %v, want one after %v", stamped, err, reserved)
			}
			reserved = stamped
		}
		clock.Step(-time.Hour)
		fixture.Wait(time.Minute)
		if l, err := a.Lease(); err != nil || l.NodeID == s.node {
			t.Errorf("after the glitch: got node ID %d, %v, want the other than %d", l.NodeID, err, s.node)
		}
		if l := fixture.Item(t, s.Network, s.node); l.Holder != "" || !l.ReservedUntil.Equal(reserved) {
			t.Errorf("got %+v, want a free node ID that is reserved until %v", l, reserved)
		}
	})
}

// A claim by a clock that was an hour ahead got a node ID that is reserved for almost as
// long. The node ID is of no use. So Start claims another one, with either policy. It does not
// wait for the first regular renewal, which may come much later.
func TestGlitchEndsBeforeTheAnswerToAClaim(t *testing.T) {
	for _, onLost := range []lease.LostPolicy{lease.Reacquire, lease.StopOnLoss} {
		for _, ttl := range []time.Duration{15 * time.Second, 15 * time.Minute} {
			t.Run(fmt.Sprintf("%v, policy %v", ttl, onLost), func(t *testing.T) {
				fixture.Virtual(t, func(t *testing.T) {
					s := glitchAtClaim(t, 2, 50*time.Minute, nil)
					cfg := fixture.Config(fixture.ToldTime{Network: s.Network})
					cfg.TTL, cfg.OnLost = ttl, onLost
					began := time.Now()
					a, err := lease.Start(t.Context(), cfg)
					defer func() { _ = a.Close() }()
					if took := time.Since(began); took > 10*time.Second {
						t.Errorf("Start took %v, want at most 10s", took)
					}
					if err != nil {
						t.Fatal(err)
					}
					l, err := a.Lease()
					if err != nil || l.NodeID == s.node {
						t.Errorf("got node ID %d, %v, want the other than %d", l.NodeID, err, s.node)
					}
					if l := fixture.Item(t, s.Network, s.node); l.Holder != "" || !l.ReservedUntil.Equal(s.until) {
						t.Errorf("got %+v, want a free node ID that is reserved until %v", l, s.until)
					}
					if onLost == lease.StopOnLoss { // it counts from now on
						fixture.Write(t, s.Network, protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Version: l.Version}, true)
						fixture.Wait(ttl)
						if err := a.Err(); !errors.Is(err, lease.ErrLost) {
							t.Errorf("got %v, want lost", err)
						}
					}
				})
			})
		}
	}
}

// If the pool has no other node ID, Start says so, once Config.Wait has passed.
func TestStartAfterAGlitchInAFullPool(t *testing.T) {
	for _, onLost := range []lease.LostPolicy{lease.Reacquire, lease.StopOnLoss} {
		for _, wait := range []time.Duration{0, 2 * time.Minute} {
			t.Run(fmt.Sprintf("%v, policy %v", wait, onLost), func(t *testing.T) {
				fixture.Virtual(t, func(t *testing.T) {
					cfg := fixture.Config(fixture.ToldTime{Network: glitchAtClaim(t, 1, 50*time.Minute, nil).Network})
					cfg.Wait, cfg.OnLost = wait, onLost
					began := time.Now()
					a, err := lease.Start(t.Context(), cfg)
					if took := time.Since(began); a != nil || !errors.Is(err, lease.ErrPoolExhausted) || errors.Is(err, lease.ErrLost) || took < wait || took > wait+10*time.Second {
						t.Errorf("got %v, %v after %v, want an exhausted pool after %v", a, err, took, wait)
					}
				})
			})
		}
	}
}

// The claim of the other node ID is answered only after the reservation of the first one has
// ended. Start does not return before that answer, since the agent has no node ID.
func TestStartWaitsForTheReplacement(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := glitchAtClaim(t, 2, 15*time.Second, nil)
		s.mute = time.Now().Add(25 * time.Second)
		cfg := fixture.Config(fixture.ToldTime{Network: s.Network})
		cfg.Wait, cfg.OnLost = time.Minute, lease.Reacquire
		a := fixture.Start(t, cfg)
		if _, err := a.Lease(); err != nil || time.Now().Before(s.until) {
			t.Errorf("%v before the reservation ends, Start returns a lease with the error %v", time.Until(s.until), err)
		}
	})
}

// If no other node ID can be had, Start says why the first one was given up. If the store
// sends no time, so that the first one is kept, Start says that it is reserved.
func TestStartNamesWhatItWaitsFor(t *testing.T) {
	for want, tells := range map[error]bool{lease.ErrPoolExhausted: true, lease.ErrSuspended: false} {
		fixture.Virtual(t, func(t *testing.T) {
			s := glitchAtClaim(t, 1, 50*time.Minute, nil)
			cfg := fixture.Config(s.Network)
			if tells {
				cfg.Store = fixture.ToldTime{Network: s.Network}
			}
			cfg.OnLost = lease.Reacquire
			a, err := lease.Start(t.Context(), cfg)
			if !errors.Is(err, want) || tells != strings.Contains(err.Error(), "was claimed while this machine's clock was ahead") {
				t.Errorf("got %v, want %v, and why the first node ID was given up: %v", err, want, tells)
				_ = a.Close()
			}
		})
	}
}

// An on-demand agent claims another node ID at the same use.
func TestGlitchEndsBeforeTheAnswerToAClaimOnDemand(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := glitchAtClaim(t, 2, 50*time.Minute, nil)
		o, _ := fixture.OnDemand(t, fixture.ToldTime{Network: s.Network})
		if err := o.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l, err := o.Lease(); err != nil || l.NodeID == s.node {
			t.Errorf("got node ID %d, %v, want the other than %d", l.NodeID, err, s.node)
		}
	})
}

// If the store does not answer whether the clock is right, the error of an on-demand agent does
// not blame the clock.
func TestGlitchThatCannotBeJudgedOnDemand(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		o, _ := fixture.OnDemand(t, &deafLater{ToldTime: fixture.ToldTime{Network: glitchAtClaim(t, 2, 50*time.Minute, nil).Network}})
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrSuspended) || errors.Is(err, lease.ErrClockBehind) {
			t.Errorf("got %v, want suspended, and not that the clock is behind", err)
		}
	})
}

// deafLater is a store that sends its time, and answers only the first read of the pool's item.
type deafLater struct {
	fixture.ToldTime
	deaf bool
}

func (s *deafLater) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if s.deaf {
		return protocol.PoolItem{}, errors.New("no answer")
	}
	s.deaf = true
	return s.ToldTime.PoolItem(ctx, pool)
}

// copiedInRead is a store whose client's machine is copied while the pool's item is read.
type copiedInRead struct {
	fixture.ToldTime
	copied func()
}

func (s copiedInRead) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	s.copied()
	return s.ToldTime.PoolItem(ctx, pool)
}

// The machine is copied while the agent compares its clock with the store's, after a claim
// during a glitch, or just before the fence. The agent must not release the node ID, because
// the other copy may stamp everything that is reserved.
func TestCopiedAfterAGlitch(t *testing.T) {
	for when, restore := range map[string]func(*fixture.Snapshots){
		"during the comparison": (*fixture.Snapshots).Restore,
		"before the fence":      func(clock *fixture.Snapshots) { clock.RestoreAfter(1) },
	} {
		t.Run(when, func(t *testing.T) { copiedAfterAGlitch(t, restore) })
	}
}

func copiedAfterAGlitch(t *testing.T, restore func(*fixture.Snapshots)) {
	fixture.Virtual(t, func(t *testing.T) {
		clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
		s := glitchAtClaim(t, 1, 50*time.Minute, func() { clock.Step(time.Hour) })
		var right atomic.Bool
		cfg := fixture.Config(copiedInRead{fixture.ToldTime{Network: s.Network}, func() {
			if right.CompareAndSwap(true, false) {
				restore(clock)
			}
		}})
		cfg.Clock = clock
		a := fixture.Start(t, cfg)
		clock.Step(-time.Hour)
		right.Store(true)
		fixture.Wait(time.Minute)
		if right.Load() {
			t.Fatal("the clock was not compared")
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrLost) {
			t.Errorf("got %v, want lost", err)
		}
		if l := fixture.Item(t, s.Network, 0); l.Holder == "" || time.Until(l.ReservedUntil) < 55*time.Minute {
			t.Errorf("got %+v, want it left to the other copy", l)
		}
	})
}

// If only the wall clock shows that the machine slept before a claim, the clock is compared
// with the store's once more, and the claim is sent.
func TestClaimAfterASleep(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		clock := fixture.NewDozy()
		store := &readThen{ToldTime: fixture.ToldTime{Network: fixture.NewNetwork(1)}, then: func() { clock.Freeze(10*time.Second, true) }}
		cfg := fixture.Config(store)
		cfg.Clock = clock
		a := fixture.Start(t, cfg)
		if _, err := a.Lease(); err != nil || store.reads != 2 {
			t.Errorf("got %v after %d reads, want a lease after 2", err, store.reads)
		}
	})
}
