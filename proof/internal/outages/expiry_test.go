package outages_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// expiring starts the only holder of a pool, which stops at its deadline and then claims
// another node ID. The answers to its renewals are lost, so the table shows a lease that ends
// a minute after the deadline. From then on, nothing is answered until the function is called.
func expiring(t *testing.T, s *fixture.Network) (a *lease.Agent, ev *fixture.Events, end func()) {
	ev = new(fixture.Events)
	cfg := fixture.Config(s)
	cfg.TTL, cfg.OnExpiry, cfg.OnLost, cfg.OnEvent = time.Minute, lease.Stop, lease.Reacquire, ev.Add
	a = fixture.Start(t, cfg)
	s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
		if _, ok := w.(protocol.Renew); ok {
			return fixture.Lose(ctx, do)
		}
		return fixture.Hang(ctx)
	})
	return a, ev, func() {
		s.On(func(_ context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			return do()
		})
	}
}

// A lease ended at its deadline in an outage. After the outage, its node ID is released within
// seconds, and can be claimed again, also if the last renewal reached the table.
func TestNodeIDIsReleasedAfterItsDeadline(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a, ev, end := expiring(t, s)
		g := fixture.IDs(t, a)
		before, err := g.Next()
		if err != nil {
			t.Fatal(err)
		}
		fixture.Wait(70 * time.Second)
		if n := len(ev.Of(lease.EventLost)); n != 1 {
			t.Fatalf("got %d losses, want 1", n)
		}
		if l := fixture.Item(t, s, 0); time.Until(l.ExpiresAt) < 30*time.Second {
			t.Fatalf("got a lease until %v, want one that goes on", l.ExpiresAt)
		}
		end()
		fixture.Wait(15 * time.Second)
		if l, err := a.Lease(); err != nil || l.Version != 2 {
			t.Errorf("after the outage: got %+v, %v, want the second version", l, err)
		}
		if after, err := g.Next(); err != nil || after <= before {
			t.Errorf("got %d after %d, %v", after, before, err)
		}
		if n := len(ev.Of(lease.EventReleased)); n != 1 {
			t.Errorf("got %d releases, want 1", n)
		}
	})
}

// If only the holder's requests for the node ID that was lost are not answered, it claims another
// one soon, however long the lost one rests.
func TestItemThatDoesNotAnswerKeepsNobodyFromAnother(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, ev := fixture.NewNetwork(2), new(fixture.Events)
		cfg := fixture.Config(s)
		cfg.Reserve, cfg.OnExpiry, cfg.OnLost, cfg.OnEvent = time.Hour, lease.Stop, lease.Reacquire, ev.Add
		a := fixture.Start(t, cfg)
		lost := a.NodeID()
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, claims := w.(protocol.Claim); claims { // any node ID may be guessed
				return do()
			}
			if w.Item().NodeID == lost {
				return fixture.Hang(ctx)
			}
			return do()
		})
		fixture.Wait(time.Minute)
		if l, err := a.Lease(); err != nil || l.NodeID == lost {
			t.Errorf("got %+v, %v, want node ID %d", l, err, 1-lost)
		}
		if kinds := ev.Kinds(lease.EventLost, lease.EventReleased, lease.EventNotReleased); len(kinds) != 2 || kinds[1] != lease.EventNotReleased {
			t.Errorf("got the events %v, want one loss, and one release without an answer", kinds)
		}
	})
}

// If the role is denied everything for a while, the failed release is reported once, and is sent
// again afterwards.
func TestDeniedReleaseIsReportedOnce(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a, ev, end := expiring(t, s)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Renew); ok {
				return fixture.Lose(ctx, do)
			}
			return protocol.Result{}, protocol.ErrAccess
		})
		fixture.Wait(70 * time.Second)
		end()
		fixture.Wait(15 * time.Second)
		if l, err := a.Lease(); err != nil || l.Version != 2 {
			t.Errorf("got %+v, %v, want the second version", l, err)
		}
		if kinds := ev.Kinds(lease.EventReleased, lease.EventNotReleased); len(kinds) != 2 || kinds[1] != lease.EventReleased {
			t.Errorf("got the events %v, want one release that failed, and one that did not", kinds)
		}
	})
}

// Close ends an agent that waits for the answer to such a release, and releases the node ID
// itself.
func TestCloseWhileANodeIDIsReleased(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a, ev, end := expiring(t, s)
		for len(ev.Of(lease.EventLost)) == 0 {
			fixture.Wait(time.Second)
		}
		end()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if l := fixture.Item(t, s, 0); l.Holder != "" {
			t.Errorf("got %+v, want it released", l)
		}
		if kinds := ev.Kinds(lease.EventReleased, lease.EventNotReleased); len(kinds) != 1 || kinds[0] != lease.EventReleased {
			t.Errorf("got the events %v, want one release", kinds)
		}
	})
}
