package lease_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

func TestCloseFencesThenReleases(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		g := fixture.IDs(t, a)
		fixture.Wait(7 * time.Second)
		last, err := g.Next()
		if err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Second)
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Release); ok {
				if id, err := g.TryNext(); err == nil {
					t.Errorf("an ID, %v, was made while the release was under way", id)
				}
			}
			return do()
		})
		if err := errors.Join(a.Close(), a.Close()); err != nil {
			t.Fatal(err)
		}
		l := fixture.Item(t, s, 0)
		if l.Holder != "" || !l.ReservedUntil.Equal(last.Time()) {
			t.Errorf("left %+v, want it free and reserved until %v", l, last.Time())
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrClosed) || !errors.Is(a.Err(), lease.ErrClosed) {
			t.Errorf("got %v, %v, want lease.ErrClosed", err, a.Err())
		}
		if _, err := g.Next(); err == nil {
			t.Error("an ID after Close")
		}
		<-a.Done()
		// The next holder need not wait.
		b := fixture.Start(t, fixture.Config(s))
		if l, err := b.Lease(); err != nil || l.Version != 2 || !l.NotBefore.Equal(last.Time()) {
			t.Error(l, err)
		}
	})
}

// A session that has stamped nothing gives back its whole span.
func TestCloseOfAnUnusedLease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		before := fixture.Item(t, s, 0).ReservedUntil
		a := fixture.Start(t, fixture.Config(s))
		fixture.Wait(time.Minute)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if got := fixture.Item(t, s, 0).ReservedUntil; !got.Equal(before) {
			t.Errorf("reserved until %v, want %v", got, before)
		}
	})
}

func TestCloseReportsAReleaseWithoutAnswer(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		s.SetOutage(errors.New("away"))
		began := time.Now()
		if err := a.Close(); err == nil || time.Since(began) > 4*time.Second {
			t.Error(err, time.Since(began))
		}
	})
}

// If Close is called while the agent claims another node ID, no node ID stays held.
func TestCloseWhileReacquiring(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		cfg := fixture.Config(s)
		cfg.OnLost = lease.Reacquire
		a := fixture.Start(t, cfg)
		claiming := make(chan struct{})
		closed := make(chan error, 1)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Claim); ok {
				res, err := do()
				close(claiming)
				<-ctx.Done() // the answer comes only after Close has begun
				return res, err
			}
			return do()
		})
		fixture.Take(t, s, a)
		<-claiming
		s.On(nil)
		go func() { closed <- a.Close() }()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		for n := range 2 {
			if l := fixture.Item(t, s, n); l.Holder != "" && l.Holder != "thief" {
				t.Errorf("left behind: %+v", l)
			}
		}
	})
}

// Once Close has begun, nobody can rely on the lease, whether the release succeeds or
// not. When the release is sent, no renewal is in flight.
func TestNothingGoesOnWhileReleasing(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		var renewing atomic.Bool
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			switch w.(type) {
			case protocol.Renew:
				renewing.Store(true)
				defer renewing.Store(false)
				return fixture.Hang(ctx)
			case protocol.Release:
				if renewing.Load() {
					t.Error("a release was sent while a renewal was under way")
				}
				if l, err := a.Lease(); !errors.Is(err, lease.ErrClosed) {
					t.Errorf("relied on while the release was under way: %+v, %v", l, err)
				}
			}
			return do()
		})
		for !renewing.Load() {
			fixture.Wait(10 * time.Millisecond)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Every method may be called after Close, repeatedly and concurrently.
func TestMethodsAfterClose(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		a := fixture.Start(t, fixture.Config(fixture.NewNetwork(1)))
		fixture.Together(8, func(int) { _ = a.Close() })
		_, err := a.Lease()
		if !errors.Is(err, lease.ErrClosed) || !errors.Is(a.Err(), lease.ErrClosed) {
			t.Errorf("got %v, %v, want ErrClosed", err, a.Err())
		}
		siblings.BeforeResume(a, func() {})
		_ = a.SetMetadata(nil)
		_, _ = a.Left(), a.Renewed()
		if a.NodeID() != 0 || a.Pool() != "orders" || a.Timeline() == nil {
			t.Error("an agent that has ended forgot what it was")
		}
	})
}

// Two renewals get no answer, and the first of them has landed. Close still gives back all
// milliseconds that were not stamped.
func TestCloseAfterUnansweredRenewals(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := fixture.Config(s)
		cfg.Reserve = 4 * time.Hour
		a := fixture.Start(t, cfg)
		sent := 0
		second := make(chan struct{})
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Renew); !ok {
				return do()
			}
			if sent++; sent == 1 {
				return fixture.Lose(ctx, do)
			}
			close(second)
			return fixture.Hang(ctx)
		})
		<-second
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if l := fixture.Item(t, s, 0); l.Holder != "" || l.ReservedUntil.After(time.Now()) {
			t.Errorf("got %+v, want it free and not reserved", l)
		}
	})
}
