package naps_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// next calls Refresh and makes an ID.
func next(t *testing.T, o *lease.OnDemand, g *snowflake.Generator) snowflake.ID {
	t.Helper()
	fixture.Refresh(t, o)
	id, err := g.Next()
	if err != nil {
		t.Fatalf("Next after Refresh: got %v, want an ID", err)
	}
	return id
}

// steal makes another process claim a node ID whose lease has expired.
func steal(t *testing.T, s *fixture.Network, node int) {
	t.Helper()
	now := time.Now()
	res, err := s.Memory.Write(t.Context(), protocol.Claim{
		Key: protocol.Key{Pool: "orders", NodeID: node}, Session: "thief", Task: "another task", At: now, ClaimGuard: time.Second,
		ExpiresAt: now.Add(time.Hour), ReservedUntil: now.Add(time.Hour + time.Second),
	})
	if err != nil || !res.Applied {
		t.Fatal(res, err)
	}
}

// counts returns how many claims and renewals were sent.
func counts(s *fixture.Network) [2]int {
	return [2]int{len(fixture.WritesOf[protocol.Claim](s)), len(fixture.WritesOf[protocol.Renew](s))}
}

// An on-demand agent sends nothing before the first use, while enough of the lease is
// left, or while the process sleeps. Under continuous use, it sends one renewal in each
// two thirds of the length of the lease.
func TestOnDemandSendsWhenUsed(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		var e fixture.Events
		o, _ := fixture.OnDemand(t, s, func(c *lease.Config) { c.OnEvent = e.Add })
		if _, err := o.Lease(); !errors.Is(err, lease.ErrSuspended) || o.NodeID() != -1 {
			t.Errorf("before the first use: got %v and node ID %d, want ErrSuspended and -1", err, o.NodeID())
		}
		fixture.Wait(time.Hour)
		if got := s.Writes(); got != 0 {
			t.Fatalf("writes before the first use: got %d, want 0", got)
		}
		fixture.Refresh(t, o)
		if got := fixture.Item(t, s, o.NodeID()); !got.OnDemand || got.TTL != 5*time.Minute {
			t.Errorf("the item: got on_demand %v and TTL %v, want true and 5m", got.OnDemand, got.TTL)
		}
		for range 199 {
			fixture.Wait(time.Second)
			fixture.Refresh(t, o)
		}
		if got, want := counts(s), [2]int{1, 0}; got != want {
			t.Errorf("claims and renewals in 199 s of use: got %v, want %v", got, want)
		}
		for range 2000 {
			fixture.Wait(time.Second)
			fixture.Refresh(t, o)
		}
		if got, want := counts(s), [2]int{1, 10}; got != want {
			t.Errorf("claims and renewals in 2,199 s of use: got %v, want %v", got, want)
		}
		fixture.Wait(time.Hour)
		if got, want := counts(s), [2]int{1, 10}; got != want {
			t.Errorf("claims and renewals after an hour without use: got %v, want %v", got, want)
		}
		if got := e.Kinds(lease.EventSuspended, lease.EventLost); got != nil {
			t.Errorf("events of a process that sleeps: got %v, want none", got)
		}
	})
}

// A process that slept continues with its node ID if nobody has taken it, and with
// another node ID otherwise. Its IDs grow in both cases.
func TestOnDemandAfterASleep(t *testing.T) {
	for name, wallOnly := range map[string]bool{"that each clock shows": false, "that only the wall clock shows": true} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(2)
				o, d := fixture.OnDemand(t, s)
				g, err := o.Generator(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				sleep := func() {
					if wallOnly {
						d.Freeze(time.Hour, true)
						fixture.Wait(20 * time.Millisecond) // a generator that is catching up reads the wall clock only after this time
					} else {
						fixture.Wait(time.Hour)
					}
				}
				before := next(t, o, g)
				first := o.NodeID()
				sleep()
				if _, err := o.Lease(); !errors.Is(err, lease.ErrSuspended) {
					t.Errorf("Lease after a sleep: got %v, want ErrSuspended", err)
				}
				if id, err := g.Next(); err == nil { // no promise is tested, since the stamp would be in the span
					t.Errorf("Next after a sleep, without Refresh: got %v, want an error", id)
				}
				after := next(t, o, g)
				if l, err := o.Lease(); err != nil || l.NodeID != first || l.Version != 1 {
					t.Errorf("nobody took node %d: got %+v, %v", first, l, err)
				}
				if got, want := counts(s), [2]int{1, 1}; got != want {
					t.Errorf("claims and renewals: got %v, want %v", got, want)
				}
				sleep()
				steal(t, s, first)
				last := next(t, o, g)
				if l, err := o.Lease(); err != nil || l.NodeID == first {
					t.Errorf("somebody took node %d: got %+v, %v", first, l, err)
				}
				if got, want := counts(s), [2]int{2, 2}; got[1] != want[1] || got[0] > 3 {
					t.Errorf("claims and renewals: got %v, want %v", got, want)
				}
				if !(before < after && after < last) {
					t.Errorf("IDs do not grow: %v, %v, %v", before, after, last)
				}
				if err := o.Err(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A pause that only an outside clock shows is taken into account, even if the wall clock
// steps back during the pause: the clock that shows the most time decides.
func TestOnDemandWitness(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		o, d := fixture.OnDemand(t, s)
		o.Witness(time.Now().Add(time.Minute))
		fixture.Refresh(t, o)
		d.Freeze(4*time.Minute, false)
		o.Witness(time.Now().Add(time.Minute))
		if _, err := o.Lease(); err != nil {
			t.Errorf("Lease after 4 min of 5: got %v, want nil", err)
		}
		fixture.Refresh(t, o)
		if got, want := counts(s), [2]int{1, 1}; got != want {
			t.Errorf("claims and renewals: got %v, want %v", got, want)
		}
		d.Freeze(time.Hour, false)
		o.Witness(time.Now().Add(time.Minute))
		if _, err := o.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("Lease after an hour that only the outside clock shows: got %v, want ErrSuspended", err)
		}
	})
}

// Many concurrent callers share one flight.
func TestOnDemandSingleFlight(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(256)
		s.On(func(ctx context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			time.Sleep(20 * time.Millisecond) // virtual: the latency of a request
			return do()
		})
		o, _ := fixture.OnDemand(t, s)
		for round, want := range [][2]int{{1, 0}, {1, 1}} {
			fixture.Together(50, func(int) {
				if err := o.Refresh(t.Context()); err != nil {
					t.Errorf("Refresh: got %v, want nil", err)
				}
			})
			if got := counts(s); got != want {
				t.Errorf("round %d: claims and renewals of 50 callers: got %v, want %v", round, got, want)
			}
			fixture.Wait(4 * time.Minute)
		}
	})
}

// A caller that gives up ends only its own wait, and not the waits of other callers.
func TestOnDemandCancelIsTheCallersOwn(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		s.On(func(ctx context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			select {
			case <-time.After(time.Second): // virtual
				return do()
			case <-ctx.Done():
				return protocol.Result{}, ctx.Err()
			}
		})
		o, _ := fixture.OnDemand(t, s)
		hasty, giveUp := context.WithCancel(t.Context())
		gaveUp, stayed := make(chan error), make(chan error)
		go func() { gaveUp <- o.Refresh(hasty) }()
		synctest.Wait()
		go func() { stayed <- o.Refresh(t.Context()) }()
		synctest.Wait()
		giveUp()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) || !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("the caller that gave up: got %v, want Canceled", err)
		}
		if err := <-stayed; err != nil {
			t.Errorf("the caller that stayed: got %v, want nil", err)
		}
		if got, want := counts(s), [2]int{1, 0}; got != want {
			t.Errorf("claims and renewals: got %v, want %v", got, want)
		}
	})
}

// A call returns before its deadline, so that the caller has time to act on the error,
// whatever the store does. Nothing is sent after the call.
func TestOnDemandDeadline(t *testing.T) {
	for name, meddle := range map[string]func(context.Context) (protocol.Result, error){
		"no answer": fixture.Hang,
		"throttled": func(context.Context) (protocol.Result, error) {
			return protocol.Result{}, errors.New("ThrottlingException: slow down")
		},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(8)
				s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
					return meddle(ctx)
				})
				o, _ := fixture.OnDemand(t, s)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				err := o.Refresh(ctx)
				if took := time.Since(began); took > 2800*time.Millisecond || took < 2*time.Second {
					t.Errorf("a call with 3 s took %v", took)
				}
				if !errors.Is(err, lease.ErrSuspended) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "throttled") {
					t.Errorf("got %v, want ErrSuspended with the deadline and a remedy", err)
				}
				if name == "throttled" && !strings.Contains(err.Error(), "slow down") {
					t.Errorf("got %v, want what the store said", err)
				}
				sent := s.Writes()
				fixture.Wait(time.Hour)
				if got := s.Writes(); got != sent {
					t.Errorf("writes after the call had returned: got %d, want 0", got-sent)
				}
				s.On(nil)
				fixture.Refresh(t, o)
			})
		})
	}
}

// A call without a deadline also ends.
func TestOnDemandWithoutADeadline(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		s.SetOutage(errors.New("away"))
		o, _ := fixture.OnDemand(t, s)
		began := time.Now()
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("got %v, want ErrSuspended", err)
		}
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("it took %v, want 30 s at most", took)
		}
		s.SetOutage(nil)
		fixture.Refresh(t, o)
	})
}

// While there is a problem, each call returns an error that names the problem and the
// remedy. Once the problem is fixed, the next call succeeds.
func TestOnDemandErrors(t *testing.T) {
	t.Run("exhausted", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			steal(t, s, 0)
			o, _ := fixture.OnDemand(t, s)
			for range 2 {
				if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrPoolExhausted) || !strings.Contains(err.Error(), "resize the pool") {
					t.Errorf("got %v, want ErrPoolExhausted with a remedy", err)
				}
			}
			fixture.Wait(2 * time.Hour)
			fixture.Refresh(t, o)
		})
	})
	t.Run("not seeded, then denied", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(0)
			o, _ := fixture.OnDemand(t, s)
			if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrPoolNotSeeded) {
				t.Errorf("got %v, want ErrPoolNotSeeded", err)
			}
			s.Memory = leasetest.NewMemory("orders", 1)
			s.SetOutage(lease.ErrAccess)
			if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrAccess) {
				t.Errorf("got %v, want ErrAccess", err)
			}
			s.SetOutage(nil)
			fixture.Refresh(t, o)
			fixture.Wait(time.Hour)
			s.SetOutage(lease.ErrAccess)
			began := time.Now()
			if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrAccess) || time.Since(began) > time.Second {
				t.Errorf("a renewal that is denied: got %v after %v, want ErrAccess at once", err, time.Since(began))
			}
			s.SetOutage(nil)
			fixture.Refresh(t, o)
		})
	})
	t.Run("configuration", func(t *testing.T) {
		t.Setenv("NODELEASE_POOL", "")
		t.Setenv("NODELEASE_TABLE", "")
		_, err := lease.NewOnDemand(lease.Config{RenewEvery: time.Second, OnLost: lease.Reacquire})
		for _, want := range []string{"NODELEASE_POOL", "NODELEASE_TABLE", "RenewEvery", "OnLost"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to name %s", err, want)
			}
		}
	})
}

// While the lease is good, a renewal that is not answered is not an error, and not every
// later call waits for the store.
func TestOnDemandRenewsInTime(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		o, _ := fixture.OnDemand(t, s)
		fixture.Refresh(t, o)
		fixture.Wait(4 * time.Minute)
		s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Hang(ctx)
		})
		began := time.Now()
		for range 100 {
			fixture.Refresh(t, o)
		}
		if got, took := counts(s), time.Since(began); got != [2]int{1, 1} || took > 2*time.Second {
			t.Errorf("100 calls: got claims and renewals %v in %v, want [1 1] in about a second", got, took)
		}
		fixture.Wait(11 * time.Second)
		fixture.Refresh(t, o)
		if got := counts(s); got != [2]int{1, 2} {
			t.Errorf("11 s later: got claims and renewals %v, want [1 2]", got)
		}
		s.On(nil)
		fixture.Wait(11 * time.Second)
		fixture.Refresh(t, o)
		if l, err := o.Lease(); err != nil || l.Renewal != 3 {
			t.Errorf("the store is back: got %+v, %v, want renewal 3", l, err)
		}
	})
}
