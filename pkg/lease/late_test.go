package lease_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/fixture"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// The answer to a claim comes when the lease that it grants is over: the process
// was stopped meanwhile. Nothing was stamped, so it is given up, and another
// session tries.
func TestClaimAnsweredAfterItsLease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		late := true
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			if _, ok := w.(protocol.Claim); ok && late {
				late = false
				time.Sleep(14 * time.Second) // virtual
			}
			return res, err
		})
		a := start(t, config(s))
		l, err := a.Lease()
		if err != nil {
			t.Fatal(err)
		}
		given := fixture.WritesOf[protocol.Abandon](s)
		if len(given) != 1 || given[0].Session == l.Holder {
			t.Errorf("given up: %+v; held: %+v", given, l)
		}
	})
}

// With Stop the end at the deadline is an end: a renewal whose answer comes after
// it brings nothing back, and nobody is told that it did.
func TestRenewalAnsweredAfterTheEnd(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		var ev events
		cfg := config(s)
		cfg.OnExpiry, cfg.OnEvent = lease.Stop, ev.add
		a := start(t, cfg)
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
		if got := ev.of(lease.EventRenewed, lease.EventResumed); len(got) != 0 {
			t.Errorf("after the end: %+v", got)
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Once Close has begun, nobody relies on the number, whatever becomes of the
// release; and no renewal is under way any more when it is sent.
func TestNothingGoesOnWhileReleasing(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := start(t, config(s))
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
