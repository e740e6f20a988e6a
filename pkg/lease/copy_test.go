package lease_test

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Copies of a running process (a cloned machine, a forked process): two that have
// one session, version and renewal.

// copied is the next renewal of a copy of a, as of when a's lease was confirmed.
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

// write does a write that must be done, or must be refused.
func write(t *testing.T, s *fixture.Network, w protocol.Write, applied bool) {
	t.Helper()
	if res, err := s.Memory.Write(context.WithoutCancel(t.Context()), w); err != nil || res.Applied != applied {
		t.Fatalf("%+v: got %+v, %v, want applied: %v", w, res, err, applied)
	}
}

// A copy renews in step, with the same numbers. The second one sees times that it did not
// send: it is lost, and frees the node ID with all that the copy may stamp. So the copy
// is lost at its next renewal, and nobody else gets its IDs.
func TestCopyInStep(t *testing.T) {
	for _, renewal := range []int64{1, 40} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			a := fixture.Start(t, fixture.Config(s))
			twin := copied(t, a, renewal)
			write(t, s, twin, true)
			fixture.Wait(8 * time.Second)
			if !errors.Is(a.Err(), lease.ErrLost) {
				t.Fatalf("got %v, want lost", a.Err())
			}
			if l := item(t, s, 0); l.Holder != "" || l.Version != 1 || !l.ReservedUntil.Equal(twin.ReservedUntil) {
				t.Errorf("left %+v, want it free and reserved until %v", l, twin.ReservedUntil)
			}
			twin.Renewal++
			write(t, s, twin, false)
			if _, err := lease.Start(t.Context(), fixture.Config(s)); !errors.Is(err, lease.ErrPoolExhausted) {
				t.Errorf("a third process: got %v, want no node ID while the copy may stamp", err)
			}
		})
	}
}

// The copy renews while the node ID is being freed: that is done again, and keeps
// what the copy has reserved by then.
func TestCopyRenewsWhileItIsFreed(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		twin := copied(t, a, 1)
		write(t, s, twin, true)
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if r, ok := w.(protocol.FreeCopy); ok && r.Renewal < 3 {
				twin.Renewal, twin.Confirmed, twin.ReservedUntil = r.Renewal+1, twin.ReservedUntil, twin.ReservedUntil.Add(time.Second)
				write(t, s, twin, true)
			}
			return do()
		})
		<-a.Done()
		_ = a.Close()
		if l := item(t, s, 0); l.Holder != "" || l.Renewal != 3 || !l.ReservedUntil.Equal(twin.ReservedUntil) {
			t.Errorf("left %+v, want it free and reserved until %v", l, twin.ReservedUntil)
		}
	})
}

// Milliseconds that a holder reserved and a copy's renewal lowered may have been stamped.
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
		write(t, s, twin, true)
		<-a.Done()
		_ = a.Close()
		if now := item(t, s, 0); now.Holder != "" || !now.ReservedUntil.Equal(l.ReservedUntil) {
			t.Errorf("left %+v, want it free and reserved until %v", now, l.ReservedUntil)
		}
	})
}

// A release hands back what was not stamped, so it must not be a copy's to stamp:
// neither when the copy's renewal has a number of its own, nor when it has that of
// a renewal of ours which never arrived. A renewal of ours that arrived, though its
// answer did not, keeps nothing.
func TestCloseBesideACopy(t *testing.T) {
	for name, c := range map[string]struct {
		renewal int64 // of the copy, 0 = none
		arrives bool  // the renewal of ours that has no answer
	}{
		"renewed since": {2, false}, "renewed with our number": {1, false}, "no copy": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(1)
				before := item(t, s, 0).ReservedUntil
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
				if l := item(t, s, 0); l.Holder != "" || !l.ReservedUntil.Equal(want) {
					t.Errorf("left %+v, want it free and reserved until %v", l, want)
				}
			})
		})
	}
}

// A claim that finds its own session renewed is that of a copy.
func TestClaimOfACopy(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if c, ok := w.(protocol.Claim); ok {
				s.On(nil)
				if _, err := do(); err != nil {
					return protocol.Result{}, err
				}
				write(t, s, protocol.Renew{Key: c.Key, Session: c.Session, Version: 1, Renewal: 1, ExpiresAt: c.ExpiresAt, ReservedUntil: c.ReservedUntil, Confirmed: c.ReservedUntil}, true)
				return fixture.Hang(ctx)
			}
			return do()
		})
		a := fixture.Start(t, fixture.Config(s))
		other := item(t, s, 1-a.NodeID())
		if other.Renewal != 1 || other.Holder == "" {
			t.Errorf("got node %d, and the copy's is %+v; want the other one", a.NodeID(), other)
		}
	})
}

// snapshots is a machine that can be restored from a snapshot.
type snapshots struct {
	*leasetest.Clock
	generation atomic.Uint64
}

func (s *snapshots) Generation() uint64 { return s.generation.Load() }

// A process on a machine that was restored from a snapshot is lost at once, in its
// calls and in the agent, and changes nothing in the table: the original may live on
// with the lease. With Reacquire it takes another node ID.
func TestRestoredFromASnapshot(t *testing.T) {
	for _, how := range []string{"renewal", "close", "reacquire"} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(2)
			clock := &snapshots{Clock: leasetest.NewClock(0)}
			cfg := fixture.Config(s)
			cfg.Clock = clock
			if how == "reacquire" {
				cfg.OnLost = lease.Reacquire
			}
			a := fixture.Start(t, cfg)
			g := ids(t, a)
			fixture.Wait(time.Second)
			before := item(t, s, a.NodeID())
			clock.generation.Add(1)
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
			if now := item(t, s, before.NodeID); !reflect.DeepEqual(now, before) {
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
