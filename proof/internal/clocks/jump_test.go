package clocks_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// readThen is a store that sends its time. The first read of the pool's item is followed by
// then.
type readThen struct {
	fixture.ToldTime
	then  func()
	reads int
}

func (s *readThen) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.ToldTime.PoolItem(ctx, pool)
	if s.reads++; s.reads == 1 {
		s.then()
	}
	return p, err
}

// The wall clock jumps an hour ahead for two seconds, just before a claim that would take
// over a live lease. The claim is not sent, so there are never two holders: neither during
// the glitch nor afterwards, when the first holder does not renew for minutes.
func TestClaimAfterAJump(t *testing.T) {
	for _, sleeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("on demand %v", sleeps), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s, clock := fixture.NewNetwork(1), leasetest.NewClock(0)
				first := fixture.Config(fixture.ToldTime{Network: s})
				first.TTL = 10 * time.Minute
				a := fixture.Start(t, first)
				<-a.Renewed() // the next renewal is three minutes away
				claims := len(fixture.WritesOf[protocol.Claim](s))
				cfg := fixture.Config(&readThen{ToldTime: fixture.ToldTime{Network: s}, then: func() {
					clock.Step(time.Hour)
					time.AfterFunc(2*time.Second, func() { clock.Step(-time.Hour) })
				}})
				cfg.Clock, cfg.Wait = clock, time.Minute
				var err error
				if sleeps {
					o, failed := lease.NewOnDemand(cfg)
					if failed != nil {
						t.Fatal(failed)
					}
					err = o.Refresh(t.Context())
				} else if b, failed := lease.Start(t.Context(), cfg); failed != nil {
					err = failed
				} else {
					_ = b.Close()
				}
				if !errors.Is(err, lease.ErrPoolExhausted) {
					t.Errorf("got %v, want that the pool is exhausted", err)
				}
				for _, c := range fixture.WritesOf[protocol.Claim](s)[claims:] {
					if ahead := time.Until(c.At); ahead > 0 {
						t.Errorf("a claim was sent with a clock that is %v ahead", ahead)
					}
				}
				if _, err := a.Lease(); err != nil {
					t.Errorf("the first holder: got %v, want its lease", err)
				}
			})
		})
	}
}

// The first request of a claim has no answer, and the wall clock jumps an hour back for two
// seconds. The claim is not sent again with that clock: its lease would expire at once for
// everybody else, while the claimant relies on it until it renews, in minutes.
func TestClaimAfterAJumpBack(t *testing.T) {
	for _, sleeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("on demand %v", sleeps), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s, clock := fixture.NewNetwork(1), leasetest.NewClock(0)
				fixture.Wait(2 * time.Hour) // by the clock that is behind, the node ID is not reserved
				began := time.Now()
				fixture.Once[protocol.Claim](s, func(context.Context, func() (protocol.Result, error)) (protocol.Result, error) {
					clock.Step(-time.Hour)
					time.AfterFunc(2*time.Second, func() { clock.Step(time.Hour) })
					return protocol.Result{}, errors.New("connection reset")
				})
				cfg := fixture.Config(fixture.ToldTime{Network: s})
				cfg.TTL, cfg.Clock, cfg.Wait = 10*time.Minute, clock, time.Minute
				var node lease.Provider
				if sleeps {
					o, err := lease.NewOnDemand(cfg)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = o.Close() })
					fixture.Refresh(t, o)
					node = o
				} else {
					node = fixture.Start(t, cfg)
				}
				for _, c := range fixture.WritesOf[protocol.Claim](s) {
					if c.At.Before(began) {
						t.Errorf("a claim was sent with a clock that is behind: %v", c.At)
					}
				}
				if l, err := node.Lease(); err != nil || time.Until(l.ExpiresAt) < 9*time.Minute {
					t.Errorf("got a lease until %v, and %v", l.ExpiresAt, err)
				}
				if _, err := lease.Start(t.Context(), fixture.Config(fixture.ToldTime{Network: s})); !errors.Is(err, lease.ErrPoolExhausted) {
					t.Errorf("another process: got %v, want %v", err, lease.ErrPoolExhausted)
				}
			})
		})
	}
}

// A clock is a second behind when it is compared with the store's, which is within the limit.
// Then it steps back by as much again. No claim is sent with the sum of both.
func TestClaimAfterTwoSmallStepsBack(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, clock := fixture.NewNetwork(1), leasetest.NewClock(-time.Second)
		fixture.Wait(time.Minute)
		fixture.Once[protocol.Claim](s, func(context.Context, func() (protocol.Result, error)) (protocol.Result, error) {
			clock.Step(-time.Second)
			return protocol.Result{}, errors.New("connection reset")
		})
		cfg := fixture.Config(fixture.ToldTime{Network: s})
		cfg.Clock = clock
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrClockSkew) {
			t.Errorf("got %v, want %v", err, lease.ErrClockSkew)
		}
		if n := len(fixture.WritesOf[protocol.Claim](s)); n > 1 {
			t.Errorf("got %d claims, want only the first", n)
		}
	})
}

// A clock is 1.4 s ahead when it is compared with the store's, which is within the limit.
// Then it steps by as much again. No claim is sent with the sum of both.
func TestClaimAfterTwoSmallSteps(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, clock := fixture.NewNetwork(1), leasetest.NewClock(1400*time.Millisecond)
		cfg := fixture.Config(&readThen{ToldTime: fixture.ToldTime{Network: s}, then: func() { clock.Step(1400 * time.Millisecond) }})
		cfg.Clock = clock
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrClockSkew) {
			t.Errorf("got %v, want %v", err, lease.ErrClockSkew)
		}
		if n := len(fixture.WritesOf[protocol.Claim](s)); n > 0 {
			t.Errorf("got %d claims, want none", n)
		}
	})
}

// slowCheck is a store that sends its time, and takes a while to describe its table.
type slowCheck struct{ fixture.ToldTime }

func (s slowCheck) Check(ctx context.Context) error {
	time.Sleep(4 * time.Second) // virtual
	return s.ToldTime.Check(ctx)
}

// A clock that is too far behind is refused, also if the check of the table, which follows the
// answer with the store's time, takes as long as the clock is behind.
func TestSlowCheckHidesNoLag(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		fixture.Wait(time.Minute)
		cfg := fixture.Config(slowCheck{fixture.ToldTime{Network: s}})
		cfg.Clock = leasetest.NewClock(-4 * time.Second)
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrClockSkew) {
			t.Errorf("got %v, want %v", err, lease.ErrClockSkew)
		}
		if n := s.Writes(); n > 0 {
			t.Errorf("got %d writes, want none", n)
		}
	})
}

// slowConnection is a store that sends its time. Before the first answer, a connection has to
// be made.
type slowConnection struct {
	fixture.ToldTime
	made atomic.Bool
}

func (s *slowConnection) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if !s.made.Swap(true) {
		time.Sleep(3 * time.Second) // virtual
	}
	return s.ToldTime.PoolItem(ctx, pool)
}

// A clock that is too far ahead is refused, also if the connection of the first request takes
// nearly as long as the clock is ahead.
func TestSlowConnectionHidesNoLead(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := fixture.Config(&slowConnection{ToldTime: fixture.ToldTime{Network: s}})
		cfg.Clock = leasetest.NewClock(4 * time.Second)
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrClockSkew) {
			t.Errorf("got %v, want %v", err, lease.ErrClockSkew)
		}
		if n := s.Writes(); n > 0 {
			t.Errorf("got %d writes, want none", n)
		}
		fixture.Start(t, fixture.Config(&slowConnection{ToldTime: fixture.ToldTime{Network: s}})) // a clock that is right is accepted
	})
}

// Between two attempts of a claim, the connection breaks and the clock steps 4 s ahead. A
// slow new connection does not hide that: the clock is compared by an answer that comes soon,
// and the claim is not sent again.
func TestSlowReconnectionHidesNoJump(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, clock := fixture.NewNetwork(1), leasetest.NewClock(0)
		store := &slowConnection{ToldTime: fixture.ToldTime{Network: s}}
		store.made.Store(true)
		fixture.Once[protocol.Claim](s, func(context.Context, func() (protocol.Result, error)) (protocol.Result, error) {
			clock.Step(4 * time.Second)
			store.made.Store(false)
			return protocol.Result{}, errors.New("connection reset")
		})
		cfg := fixture.Config(store)
		cfg.Clock = clock
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrClockSkew) {
			t.Errorf("got %v, want %v", err, lease.ErrClockSkew)
		}
		if n := len(fixture.WritesOf[protocol.Claim](s)); n > 1 {
			t.Errorf("got %d claims, want only the first", n)
		}
	})
}

// The answer to the claim of another node ID is lost, the pool becomes smaller, and the
// clock steps by more than the limit, but is right again. The agent lives on.
func TestJumpDuringAResize(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, clock := fixture.NewNetwork(64), leasetest.NewClock(-time.Second)
		cfg := fixture.Config(fixture.ToldTime{Network: s})
		cfg.Clock, cfg.OnLost = clock, lease.Reacquire
		a := fixture.Start(t, cfg)
		size := 0
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			c, claims := w.(protocol.Claim)
			if !claims || size > 0 || c.NodeID < 2 {
				return do()
			}
			size = c.NodeID
			_, _ = do()
			if _, err := leasepool.Open(s.Memory, "orders").Resize(t.Context(), leasepool.Spec{Size: size}); err != nil {
				t.Error(err)
			}
			clock.Step(2 * time.Second)
			return fixture.Hang(ctx)
		})
		l := fixture.Item(t, s, a.NodeID())
		if _, err := leasepool.Open(s.Memory, "orders").ForceRelease(t.Context(), l.NodeID, l.Version); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(2 * time.Minute)
		if _, err := a.Lease(); err != nil || a.Err() != nil {
			t.Errorf("got %v, and the agent ended with %v, want a node ID", err, a.Err())
		}
	})
}
