package copies_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// These tests are for copies of a running process (by a cloned machine or a fork). The
// two processes have the same session, version and renewal.

// copied returns the next renewal that a copy of agent a would send, if the copy was made
// when a's lease was confirmed.
func copied(t *testing.T, a *lease.Agent, renewal int64) protocol.Renew {
	t.Helper()
	l, err := a.Lease()
	if err != nil {
		t.Fatal(err)
	}
	return protocol.Renew{
		Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Session: l.Holder, Version: l.Version, Renewal: renewal,
		ExpiresAt: l.ExpiresAt.Add(7 * time.Second), ReservedUntil: l.ReservedUntil.Add(7 * time.Second), Confirmed: l.ReservedUntil,
	}
}

// A copy renews in step with the original, with the same renewal numbers. The process
// whose renewal arrives second finds times in the item that it did not send. So it gives
// up its lease and frees the node ID, but keeps reserved all milliseconds that the copy
// may stamp. The copy loses the lease at its next renewal, and nobody else can make the
// copy's IDs.
func TestCopyInStep(t *testing.T) {
	for _, renewal := range []int64{1, 40} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			a := fixture.Start(t, fixture.Config(s))
			twin := copied(t, a, renewal)
			fixture.Write(t, s, twin, true)
			fixture.Wait(8 * time.Second)
			if !errors.Is(a.Err(), lease.ErrLost) {
				t.Fatalf("got %v, want lost", a.Err())
			}
			if l := fixture.Item(t, s, 0); l.Holder != "" || l.Version != 1 || !l.ReservedUntil.Equal(twin.ReservedUntil) {
				t.Errorf("left %+v, want it free and reserved until %v", l, twin.ReservedUntil)
			}
			twin.Renewal++
			fixture.Write(t, s, twin, false)
			if _, err := lease.Start(t.Context(), fixture.Config(s)); !errors.Is(err, lease.ErrPoolExhausted) {
				t.Errorf("a third process: got %v, want no node ID while the copy may stamp", err)
			}
		})
	}
}

// The copy renews while the node ID is being freed. The node ID is then freed again, and
// everything that the copy has reserved until then stays reserved.
func TestCopyRenewsWhileItIsFreed(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		twin := copied(t, a, 1)
		fixture.Write(t, s, twin, true)
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if r, ok := w.(protocol.FreeCopy); ok && r.Renewal < 3 {
				twin.Renewal, twin.Confirmed, twin.ReservedUntil = r.Renewal+1, twin.ReservedUntil, twin.ReservedUntil.Add(time.Second)
				fixture.Write(t, s, twin, true)
			}
			return do()
		})
		<-a.Done()
		_ = a.Close()
		if l := fixture.Item(t, s, 0); l.Holder != "" || l.Renewal != 3 || !l.ReservedUntil.Equal(twin.ReservedUntil) {
			t.Errorf("left %+v, want it free and reserved until %v", l, twin.ReservedUntil)
		}
	})
}

// If a copy's renewal lowers a holder's reservation, the holder's milliseconds stay
// reserved, since they may have been stamped.
func TestCopyThatReservedLess(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		l, err := a.Lease()
		if err != nil {
			t.Fatal(err)
		}
		twin := copied(t, a, 40)
		twin.ReservedUntil = l.ReservedUntil.Add(-5 * time.Second)
		fixture.Write(t, s, twin, true)
		<-a.Done()
		_ = a.Close()
		if now := fixture.Item(t, s, 0); now.Holder != "" || !now.ReservedUntil.Equal(l.ReservedUntil) {
			t.Errorf("left %+v, want it free and reserved until %v", now, l.ReservedUntil)
		}
	})
}

// A release gives back milliseconds that were not stamped, but no milliseconds that a
// copy may stamp. This is so if the copy's renewal has a number of its own, and also if
// it has the number of a renewal that this process sent but that never arrived. If this
// process's renewal arrived and only its answer was lost, the release gives back
// everything that was not stamped.
func TestCloseBesideACopy(t *testing.T) {
	for name, c := range map[string]struct {
		renewal int64 // the copy's renewal number; 0 if there is no copy
		arrives bool  // whether this process's renewal arrives; its answer is lost in any case
	}{
		"renewed since": {2, false}, "renewed with our number": {1, false}, "no copy": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(1)
				before := fixture.Item(t, s, 0).ReservedUntil
				a := fixture.Start(t, fixture.Config(s))
				twin := copied(t, a, c.renewal)
				sent := make(chan struct{}, 10)
				s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
					if _, ok := w.(protocol.Renew); !ok {
						return do()
					}
					if c.renewal > 0 {
						_, _ = s.Memory.Write(context.WithoutCancel(ctx), twin)
					}
					sent <- struct{}{}
					if c.arrives {
						return fixture.Lose(ctx, do)
					}
					return fixture.Hang(ctx)
				})
				<-sent
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				want := before
				if c.renewal > 0 {
					want = twin.ReservedUntil
				}
				if l := fixture.Item(t, s, 0); l.Holder != "" || !l.ReservedUntil.Equal(want) {
					t.Errorf("left %+v, want it free and reserved until %v", l, want)
				}
			})
		})
	}
}

// If a claim finds that its own session has already renewed, a copy exists.
func TestClaimOfACopy(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if c, ok := w.(protocol.Claim); ok {
				s.On(nil)
				if _, err := do(); err != nil {
					return protocol.Result{}, err
				}
				fixture.Write(t, s, protocol.Renew{Key: c.Key, Session: c.Session, Version: 1, Renewal: 1, ExpiresAt: c.ExpiresAt, ReservedUntil: c.ReservedUntil, Confirmed: c.ReservedUntil}, true)
				return fixture.Hang(ctx)
			}
			return do()
		})
		a := fixture.Start(t, fixture.Config(s))
		other := fixture.Item(t, s, 1-a.NodeID())
		if other.Renewal != 1 || other.Holder == "" {
			t.Errorf("got node %d, and the copy's is %+v; want the other one", a.NodeID(), other)
		}
	})
}

// On a machine that was restored from a snapshot, the lease is lost at once, for
// generators and for the agent. The agent changes nothing in the table, since the
// original may still use the lease. With Reacquire, the agent claims another node ID.
func TestRestoredFromASnapshot(t *testing.T) {
	for _, how := range []string{"renewal", "close", "reacquire"} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(2)
			clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
			cfg := fixture.Config(s)
			cfg.Clock = clock
			if how == "reacquire" {
				cfg.OnLost = lease.Reacquire
			}
			a := fixture.Start(t, cfg)
			g := fixture.IDs(t, a)
			fixture.Wait(time.Second)
			before := fixture.Item(t, s, a.NodeID())
			clock.Restore()
			if _, err := a.Lease(); !errors.Is(err, lease.ErrLost) {
				t.Errorf("%s: got %v at once, want lost", how, err)
			}
			if id, err := g.Next(); err == nil {
				t.Errorf("%s: got the ID %v", how, id)
			}
			if how == "close" {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}
			fixture.Wait(10 * time.Second)
			if now := fixture.Item(t, s, before.NodeID); !reflect.DeepEqual(now, before) {
				t.Errorf("%s: got %+v, want %+v left alone", how, now, before)
			}
			if l, err := a.Lease(); (err == nil) != (how == "reacquire") || err == nil && l.NodeID == before.NodeID {
				t.Errorf("%s: got %+v, %v", how, l, err)
			}
			if _, err := g.Next(); (err == nil) != (how == "reacquire") {
				t.Errorf("%s: an ID: got %v", how, err)
			}
		})
	}
}

// A machine is restored from a snapshot that was made while its agent's claim was in flight.
// The original got the answer and stamps, so the copy must not abandon the claim. The copy
// may get no answer, or one that comes after the lease.
func TestRestoredDuringAClaim(t *testing.T) {
	for name, late := range map[string]bool{"no answer": false, "a late answer": true} {
		for _, sleeps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, on demand %v", name, sleeps), func(t *testing.T) {
				fixture.Virtual(t, func(t *testing.T) { restoredDuringAClaim(t, late, sleeps) })
			})
		}
	}
}

func restoredDuringAClaim(t *testing.T, late, sleeps bool) {
	s := fixture.NewNetwork(2)
	clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
	cfg := fixture.Config(s)
	cfg.Clock = clock
	var original *protocol.Lease // the lease, as the original process knows it
	s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
		if _, ok := w.(protocol.Claim); !ok || original != nil && late {
			return do()
		}
		if original != nil {
			return fixture.Hang(ctx) // the restored machine has no network yet
		}
		res, err := do()
		original = res.Lease
		clock.Restore() // from here on, the agent of this test is the copy
		if late {
			time.Sleep(301 * time.Second) // virtual time
			return res, err
		}
		return fixture.Hang(ctx)
	})
	ctx, cancel := t.Context(), func() {}
	if !late {
		ctx, cancel = context.WithTimeout(ctx, time.Second)
	}
	defer cancel()
	if sleeps {
		o, err := lease.NewOnDemand(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_ = o.Refresh(ctx)
		defer func() { _ = o.Close() }()
	} else if a, err := lease.Start(ctx, cfg); err == nil {
		defer func() { _ = a.Close() }()
	}
	if now := fixture.Item(t, s, original.NodeID); !reflect.DeepEqual(now, *original) {
		t.Errorf("got %+v, want %+v left to the original", now, *original)
	}
}

// A machine is restored just before the deadline of a lease that then stops (OnExpiry). Close
// must not release the node ID, since the original may still renew and stamp.
func TestRestoredBeforeItExpires(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
		cfg := fixture.Config(s)
		cfg.Clock, cfg.OnExpiry, cfg.Reserve = clock, lease.Stop, time.Hour
		a := fixture.Start(t, cfg)
		before := fixture.Item(t, s, 0)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Renew); ok {
				return fixture.Hang(ctx)
			}
			return do()
		})
		fixture.Wait(a.Left() - time.Millisecond)
		clock.Restore()
		<-a.Done()
		_ = a.Close()
		if now := fixture.Item(t, s, 0); !reflect.DeepEqual(now, before) {
			t.Errorf("got %+v, want %+v left to the original", now, before)
		}
	})
}

// The lease of a process has grown to 15 min when its machine is restored. The process does
// not wait for its next renewal, but claims another node ID, or ends, within seconds.
func TestRestoredWithAGrownLease(t *testing.T) {
	for _, policy := range []lease.LostPolicy{lease.Reacquire, lease.StopOnLoss} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(64)
			fixture.Measuring(t, s, fixture.One)
			clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
			cfg := fixture.Config(s)
			cfg.Clock, cfg.OnLost = clock, policy
			a := fixture.Start(t, cfg)
			fixture.IDs(t, a)
			fixture.Wait(8 * time.Hour)
			<-a.Renewed() // the next renewal is minutes away
			clock.Restore()
			fixture.Wait(20 * time.Second)
			if _, err := a.Lease(); (err == nil) != (policy == lease.Reacquire) || (a.Err() == nil) != (policy == lease.Reacquire) {
				t.Errorf("policy %v: got %v, Err %v, want another node ID with %v, and otherwise lost", policy, err, a.Err(), lease.Reacquire)
			}
		})
	}
}

// A machine is restored while an on-demand agent retries a renewal. The copy leaves the lease
// to the original, and claims another node ID.
func TestRestoredDuringARetry(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		o, d := fixture.OnDemand(t, s)
		fixture.Refresh(t, o)
		before := fixture.Item(t, s, o.NodeID())
		fixture.Wait(299 * time.Second)
		fixture.Once[protocol.Renew](s, func(context.Context, func() (protocol.Result, error)) (protocol.Result, error) {
			d.Restore()
			return protocol.Result{}, errors.New("connection reset")
		})
		fixture.Refresh(t, o)
		if now := fixture.Item(t, s, before.NodeID); !reflect.DeepEqual(now, before) {
			t.Errorf("got %+v, want %+v left to the original", now, before)
		}
		if l, err := o.Lease(); err != nil || l.NodeID == before.NodeID {
			t.Errorf("got node ID %d, %v, want another than %d", l.NodeID, err, before.NodeID)
		}
	})
}

// A machine is restored while its agent waits inside a renewal, here for the function of
// BeforeResume. The copy sends no renewal, since that would take the lease from the original.
func TestRestoredInsideARenewal(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
		cfg := fixture.Config(s)
		cfg.Clock = clock
		a := fixture.Start(t, cfg)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, renews := w.(protocol.Renew); renews {
				return fixture.Hang(ctx)
			}
			return do()
		})
		sent := 0
		siblings.BeforeResume(a, func() {
			if clock.Generation() == 0 {
				sent = len(fixture.WritesOf[protocol.Renew](s))
				clock.Restore()
			}
		})
		<-a.Done()
		if n := len(fixture.WritesOf[protocol.Renew](s)); clock.Generation() != 1 || n != sent {
			t.Errorf("got %d renewals of the copy, want none", n-sent)
		}
	})
}

// A machine is restored between Close's look for a copy and the fence. The copy releases
// nothing, since the original may stamp later milliseconds.
func TestRestoredInsideClose(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
		cfg := fixture.Config(s)
		cfg.Clock, cfg.Reserve = clock, time.Hour
		a, err := lease.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		clock.RestoreAfter(1)
		_ = a.Close()
		if l := fixture.Item(t, s, 0); l.Holder == "" {
			t.Errorf("got a release up to %v, want none", l.ReservedUntil)
		}
	})
}

// A machine is restored between the last look for a copy before the deadline and the fence of
// a lease that then stops (OnExpiry). The copy releases nothing, since the original may stamp
// later milliseconds before its own fence.
func TestRestoredInsideAnExpiry(t *testing.T) {
	for readings := range int64(2) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
			cfg := fixture.Config(s)
			cfg.Clock, cfg.OnExpiry, cfg.Reserve = clock, lease.Stop, time.Hour
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
				if _, renews := w.(protocol.Renew); renews {
					return protocol.Result{}, errors.New("connection reset")
				}
				return do()
			})
			fixture.Wait(a.Left() - time.Microsecond)
			clock.RestoreAfter(1 + readings)
			<-a.Done()
			_ = a.Close()
			if l := fixture.Item(t, s, 0); l.Holder == "" {
				t.Errorf("restored after %d readings: got a release up to %v, want none", 1+readings, l.ReservedUntil)
			}
		})
	}
}

// A machine is restored while a renewal hangs, and a call of a generator finds that before the
// deadline of a lease that then stops (OnExpiry). The copy still releases nothing.
func TestRestoredBeforeAnExpiry(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		clock := &fixture.Snapshots{Clock: leasetest.NewClock(0)}
		cfg := fixture.Config(s)
		cfg.Clock, cfg.OnExpiry, cfg.Reserve = clock, lease.Stop, time.Hour
		a, err := lease.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		g := fixture.IDs(t, a)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, renews := w.(protocol.Renew); renews {
				return fixture.Hang(ctx)
			}
			return do()
		})
		fixture.Wait(a.Left() - time.Microsecond)
		clock.Restore()
		if id, err := g.Next(); err == nil {
			t.Errorf("got ID %d after the restore, want an error", id)
		}
		<-a.Done()
		_ = a.Close()
		if l := fixture.Item(t, s, 0); l.Holder == "" {
			t.Errorf("got a release up to %v, want none", l.ReservedUntil)
		}
	})
}
