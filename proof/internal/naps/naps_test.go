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
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// brief calls Refresh with a short deadline, and fails the test if the call succeeds.
func brief(t *testing.T, o *lease.OnDemand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := o.Refresh(ctx); !errors.Is(err, lease.ErrSuspended) {
		t.Fatalf("a call whose claim has no answer: got %v, want ErrSuspended", err)
	}
}

// If the answer to a claim is lost and the caller has given up, the next use settles that
// claim, with the same session, before it tries any other node ID.
func TestOnDemandSettlesItsClaim(t *testing.T) {
	for name, landed := range map[string]bool{"that landed": true, "that did not": false} {
		t.Run(name, func(t *testing.T) {
			for _, pause := range []time.Duration{0, 10 * time.Second, time.Hour} {
				fixture.Virtual(t, func(t *testing.T) {
					s := fixture.NewNetwork(64)
					fixture.Once[protocol.Claim](s, func(ctx context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
						if landed {
							return fixture.Lose(ctx, do)
						}
						return fixture.Hang(ctx)
					})
					o, d := fixture.OnDemand(t, s)
					brief(t, o)
					d.Freeze(pause, true)
					fixture.Refresh(t, o)
					claims := fixture.WritesOf[protocol.Claim](s)
					for _, c := range claims {
						if c.Item() != claims[0].Item() && pause < time.Minute || c.Session != claims[0].Session && pause < time.Minute {
							t.Errorf("after %v: got a claim of %v by %s, want the one in doubt settled first: %v by %s", pause, c.Item(), c.Session, claims[0].Item(), claims[0].Session)
						}
					}
					if claims[1].Item() != claims[0].Item() {
						t.Errorf("after %v: another node ID was tried before the claim was settled", pause)
					}
					if _, err := o.Lease(); err != nil {
						t.Errorf("after %v: got %v, want a lease", pause, err)
					}
					if n := fixture.Held(t, s); n != 1 {
						t.Errorf("after %v: %d node IDs are held, want 1", pause, n)
					}
				})
			}
		})
	}
}

// A claim is sent before a freeze and answered after it. The time of the freeze is
// included in the age of the claim, even if only the wall clock shows the freeze. So the
// lease may not be relied on.
func TestOnDemandFrozenWhileItClaims(t *testing.T) {
	for name, lost := range map[string]bool{"the answer comes": false, "the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(1)
				o, d := fixture.OnDemand(t, s)
				frozen, believed := false, errors.New("nobody looked")
				s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
					if _, ok := w.(protocol.Renew); ok {
						_, believed = o.Lease()
					}
					res, err := do()
					if !frozen {
						frozen = true
						d.Jump(299 * time.Second)
						if lost {
							return protocol.Result{}, errors.New("connection reset")
						}
					}
					return res, err
				})
				fixture.Refresh(t, o)
				if !errors.Is(believed, lease.ErrSuspended) {
					t.Errorf("a claim of 299 s ago, with a guard of 2 s in 5 min: got %v before its renewal, want ErrSuspended", believed)
				}
				if _, err := o.Lease(); err != nil {
					t.Errorf("after the renewal: got %v, want nil", err)
				}
			})
		})
	}
}

// A process is copied while it sleeps, or while its claim is unanswered. The copy gives
// up the shared node ID, and never claims it again with the same session.
func TestOnDemandCopied(t *testing.T) {
	for name, pending := range map[string]bool{"with a lease": false, "with a claim in doubt": true} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(64)
				o, d := fixture.OnDemand(t, s)
				if pending {
					fixture.Once[protocol.Claim](s, func(ctx context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
						return fixture.Lose(ctx, do)
					})
					brief(t, o)
				} else {
					fixture.Refresh(t, o)
				}
				first := fixture.WritesOf[protocol.Claim](s)[0]
				sent := s.Writes()
				d.Restore()
				if _, err := o.Lease(); err == nil {
					t.Error("Lease of a copy: got nil, want an error")
				}
				fixture.Refresh(t, o)
				if l, err := o.Lease(); err != nil || l.Holder == first.Session {
					t.Errorf("after the copy was noticed: got %+v, %v, want another session", l, err)
				}
				for _, c := range fixture.WritesOf[protocol.Claim](s)[1:] {
					if c.Session == first.Session {
						t.Errorf("the session of the other copy was used again: %+v", c)
					}
				}
				if got := s.Writes() - sent; got > 2 {
					t.Errorf("%d writes, want a claim or two", got)
				}
				if l := fixture.Item(t, s, first.NodeID); l.Holder != first.Session {
					t.Errorf("the other copy's lease was touched: %+v", l)
				}
			})
		})
	}
}

// Close releases what the agent holds, only once, and sends nothing afterwards.
func TestOnDemandClose(t *testing.T) {
	closing := func(t *testing.T, s *fixture.Network, o *lease.OnDemand, want int) {
		t.Helper()
		if err := o.Close(); err != nil {
			t.Errorf("Close: got %v, want nil", err)
		}
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("Refresh after Close: got %v, want ErrClosed", err)
		}
		if _, err := o.Lease(); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("Lease after Close: got %v, want ErrClosed", err)
		}
		select {
		case <-o.Done():
		default:
			t.Error("Done is open after Close")
		}
		if got := s.Writes(); got != want {
			t.Errorf("writes: got %d, want %d", got, want)
		}
	}
	t.Run("unused", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			o, _ := fixture.OnDemand(t, s)
			closing(t, s, o, 0)
		})
	})
	t.Run("held", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			o, _ := fixture.OnDemand(t, s)
			g, err := o.Generator(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id := next(t, o, g)
			bindings := s.Writes()
			closing(t, s, o, bindings+1)
			if l := fixture.Item(t, s, 0); l.Holder != "" || l.ReservedUntil.Before(id.Time()) {
				t.Errorf("got %+v, want it free, and reserved to the last ID, %v", l, id.Time())
			}
			if id, err := g.Next(); err == nil {
				t.Errorf("Next after Close: got %v, want an error", id)
			}
		})
	})
	t.Run("expired", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			o, _ := fixture.OnDemand(t, s)
			fixture.Refresh(t, o)
			fixture.Wait(time.Hour)
			closing(t, s, o, 1)
		})
	})
	t.Run("with a claim in doubt", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(4)
			fixture.Once[protocol.Claim](s, func(ctx context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
				return fixture.Lose(ctx, do)
			})
			o, _ := fixture.OnDemand(t, s)
			brief(t, o)
			closing(t, s, o, 2)
			if n := fixture.Held(t, s); n != 0 {
				t.Errorf("%d node IDs are held after Close, want 0", n)
			}
		})
	})
	// SIGTERM comes while a request is in flight. The claim, which was applied, is
	// abandoned.
	t.Run("during a call", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(4)
			fixture.Once[protocol.Claim](s, func(ctx context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
				return fixture.Lose(ctx, do)
			})
			o, _ := fixture.OnDemand(t, s)
			waiting := make(chan error)
			go func() { waiting <- o.Refresh(t.Context()) }()
			synctest.Wait()
			began := time.Now()
			go func() { _ = o.Close() }()
			if err := <-waiting; !errors.Is(err, lease.ErrClosed) {
				t.Errorf("the call that waits: got %v, want ErrClosed", err)
			}
			closing(t, s, o, 2)
			if took := time.Since(began); took > 200*time.Millisecond {
				t.Errorf("it took %v, want it within the time that Lambda leaves", took)
			}
			if n := fixture.Held(t, s); n != 0 {
				t.Errorf("%d node IDs are held after Close, want 0", n)
			}
		})
	})
	// If the store does not end the request in flight, Close sends no release, since the
	// two could arrive in any order.
	t.Run("a request that does not end", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(4)
			end := make(chan struct{})
			fixture.Once[protocol.Claim](s, func(context.Context, func() (protocol.Result, error)) (protocol.Result, error) {
				<-end
				return protocol.Result{}, errors.New("late")
			})
			o, _ := fixture.OnDemand(t, s)
			go func() { _ = o.Refresh(t.Context()) }()
			synctest.Wait()
			if err := o.Close(); err == nil {
				t.Error("Close: got nil, want that nothing was released")
			}
			if got := s.Writes(); got != 1 {
				t.Errorf("writes: got %d, want 1", got)
			}
			close(end)
		})
	})
}

// After a renewal whose answer was lost, and after another process has claimed the
// expired lease, the agent acts according to the table.
func TestOnDemandRenewalInDoubt(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		o, d := fixture.OnDemand(t, s)
		fixture.Refresh(t, o)
		node := o.NodeID()
		d.Freeze(time.Hour, true)
		fixture.Once[protocol.Renew](s, func(ctx context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Lose(ctx, do)
		})
		brief(t, o)
		if _, err := o.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("a renewal without an answer: got %v, want ErrSuspended", err)
		}
		d.Freeze(time.Minute, true)
		fixture.Refresh(t, o)
		if l, err := o.Lease(); err != nil || l.NodeID != node || l.Renewal != 2 {
			t.Errorf("got %+v, %v, want node %d at renewal 2", l, err, node)
		}
		if got, want := counts(s), [2]int{1, 2}; got != want {
			t.Errorf("claims and renewals: got %v, want %v", got, want)
		}
	})
}

// If a renewal was sent before a freeze, the time of the freeze is included in its age.
// So another renewal follows before the use continues.
func TestOnDemandFrozenWhileItRenews(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		o, d := fixture.OnDemand(t, s)
		fixture.Refresh(t, o)
		fixture.Wait(4 * time.Minute)
		fixture.Once[protocol.Renew](s, func(_ context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			d.Jump(299 * time.Second)
			return res, err
		})
		fixture.Refresh(t, o)
		if got, want := counts(s), [2]int{1, 2}; got != want {
			t.Errorf("claims and renewals: got %v, want %v", got, want)
		}
		if _, err := o.Lease(); err != nil {
			t.Errorf("got %v, want a lease", err)
		}
	})
}

// If the wall clock was set back, the time that has passed on the monotonic clock is
// still taken into account.
func TestOnDemandWallClockSetBack(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		o, d := fixture.OnDemand(t, s)
		fixture.Refresh(t, o)
		fixture.Wait(4 * time.Minute)
		d.Jump(-time.Hour)
		fixture.Refresh(t, o)
		if got, want := counts(s), [2]int{1, 1}; got != want {
			t.Errorf("claims and renewals: got %v, want %v", got, want)
		}
	})
}

// timeless is a store that does not send its time, so no clock is compared with the
// store's clock.
type timeless struct{ *fixture.Network }

func (s timeless) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.Network.PoolItem(ctx, pool)
	p.ServerTime = time.Time{}
	return p, err
}

// If a claim was applied but not answered, its age is measured from its session's first
// attempt, even if the wall clock was set back since then.
func TestOnDemandClaimInDoubtIsOld(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		fixture.Once[protocol.Claim](s, func(ctx context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Lose(ctx, do)
		})
		o, d := fixture.OnDemand(t, timeless{s})
		brief(t, o)
		fixture.Wait(250 * time.Second)
		d.Jump(-250 * time.Second)
		fixture.Refresh(t, o)
		fixture.Refresh(t, o)
		if got, want := counts(s), [2]int{2, 1}; got != want {
			t.Errorf("claims and renewals: got %v, want %v: less than a third is left of a lease of 250 s ago", got, want)
		}
	})
}

// A claim is answered after its lease is over, and the release of its node ID is delayed.
// The session never claims again, since the late release would free milliseconds that it
// has stamped.
func TestOnDemandLateAbandon(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		var late func() (protocol.Result, error)
		claimed := false
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			switch w.(type) {
			case protocol.Claim:
				if !claimed {
					claimed = true
					res, err := do()
					time.Sleep(310 * time.Second) // virtual
					return res, err
				}
			case protocol.Abandon:
				if late == nil {
					late = do
					return protocol.Result{}, errors.New("connection reset")
				}
			}
			return do()
		})
		o, _ := fixture.OnDemand(t, s)
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrSuspended) || late == nil {
			t.Fatalf("a claim whose answer came after its lease: got %v, want ErrSuspended, and a release sent", err)
		}
		g, err := o.Generator(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id := next(t, o, g)
		if _, err := late(); err != nil {
			t.Fatal(err)
		}
		l, err := o.Lease()
		if err != nil {
			t.Fatal(err)
		}
		if got := fixture.Item(t, s, l.NodeID); got.Holder != l.Holder || got.ReservedUntil.Before(id.Time()) {
			t.Errorf("after the late release: got %+v, want it to be held, and reserved beyond the ID of %v", got, id.Time())
		}
	})
}

// An on-demand agent whose first claim had no answer does not read the layout yet, since an
// operator may correct it until a node ID has been claimed.
func TestOnDemandLayoutBeforeTheClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		pool := leasepool.Open(s, "orders")
		if _, err := pool.SetLayout(t.Context(), snowflake.Default()); err != nil {
			t.Fatal(err)
		}
		s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Hang(ctx)
		})
		o, _ := fixture.OnDemand(t, s)
		brief(t, o)
		if _, err := snowflake.New(o); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("a generator before the claim: got %v, want ErrSuspended", err)
		}
		s.On(nil)
		if _, err := pool.SetLayout(t.Context(), snowflake.Twitter()); err != nil {
			t.Fatal(err)
		}
		fixture.Refresh(t, o)
		g, err := snowflake.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Layout(); got != snowflake.Twitter() {
			t.Errorf("a generator after the claim: got the layout %v, want the corrected one", got)
		}
	})
}

// A claim lands without an answer, and the pool is then made smaller, so that it no longer has
// that node ID. The next use frees the node ID and claims another one.
func TestOnDemandSettlesItsClaimBeyondAResize(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		var s *fixture.Network
		var o *lease.OnDemand
		size := 0
		for size == 0 { // a pool has at least one node ID
			s = fixture.NewNetwork(64)
			fixture.Once[protocol.Claim](s, func(ctx context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
				return fixture.Lose(ctx, do)
			})
			o, _ = fixture.OnDemand(t, s)
			brief(t, o)
			size = fixture.WritesOf[protocol.Claim](s)[0].NodeID
		}
		if _, err := leasepool.Open(s, "orders").Resize(t.Context(), leasepool.Spec{Size: size}); err != nil {
			t.Fatal(err)
		}
		fixture.Refresh(t, o)
		if n := o.NodeID(); n >= size {
			t.Errorf("got node ID %d, want one below %d", n, size)
		}
		if n := fixture.Held(t, s); n != 1 {
			t.Errorf("%d node IDs are held, want 1", n)
		}
	})
}
