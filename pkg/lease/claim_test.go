package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// The answer of the first claim is lost: the same session asks again, learns
// from the refusal that it holds the number, and trusts from its first attempt.
func TestLostAnswerOfAClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		lost := 0
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Claim); ok && lost < 2 {
				lost++
				return fixture.Lose(ctx, do)
			}
			return do()
		})
		began := time.Now()
		var ev events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.add
		a := fixture.Start(t, cfg)
		l, err := a.Lease()
		if err != nil || l.Version != 1 {
			t.Fatal(l, err)
		}
		claims := fixture.WritesOf[protocol.Claim](s)
		for _, c := range claims {
			if c.Session != l.Holder || c.NodeID != l.NodeID {
				t.Errorf("a doubtful number was left for another: %+v", c)
			}
		}
		// No renewal is confirmed; the deadline counts from the first attempt.
		s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Hang(ctx)
		})
		fixture.Wait(time.Until(began.Add(13*time.Second - time.Millisecond)))
		if _, err := a.Lease(); err != nil {
			t.Errorf("before the deadline: %v", err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("at the deadline of the first attempt: %v", err)
		}
		s.On(nil)
	})
}

// A claim that never gets an answer is given back when the start ends.
func TestDoubtfulClaimIsAbandoned(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		first := true
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Claim); ok {
				if first {
					first = false
					_, _ = do()
				}
				return fixture.Hang(ctx)
			}
			return do()
		})
		before := item(t, s, 0).ReservedUntil
		if _, err := lease.Start(ctx, fixture.Config(s)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if l := item(t, s, 0); l.Holder != "" || !l.ReservedUntil.Equal(before) {
			t.Errorf("left %+v", l)
		}
	})
}

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
		a := fixture.Start(t, fixture.Config(s))
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
