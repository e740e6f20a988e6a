package lease_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func TestSlowHookDelaysNoRenewal(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		cfg := fixture.Config(leasetest.NewMemory("orders", 1))
		var seen []lease.EventKind
		cfg.OnEvent = func(e lease.Event) {
			time.Sleep(30 * time.Second) // virtual
			seen = append(seen, e.Kind)
		}
		a := fixture.Start(t, cfg)
		for range 20 {
			fixture.Wait(10 * time.Second)
			if _, err := a.Lease(); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Hour)
		if len(seen) < 20 || seen[0] != lease.EventClaimed || seen[len(seen)-1] != lease.EventReleased {
			t.Errorf("%v", seen)
		}
	})
}

// What generators did is in the events, up to the last one.
func TestEventsCountIDs(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		var ev events
		cfg := fixture.Config(leasetest.NewMemory("orders", 1))
		cfg.OnEvent = ev.add
		a := fixture.Start(t, cfg)
		g := ids(t, a)
		issue := func(n int) {
			for range n {
				if _, err := g.Next(); err != nil {
					t.Fatal(err)
				}
			}
		}
		issue(10)
		fixture.Wait(lease.DefaultTTL)
		issue(5)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Next(); err == nil {
			t.Fatal("an ID after Close")
		}
		if e := ev.of(lease.EventRenewed)[0]; e.IDs.Issued != 10 {
			t.Errorf("at the first renewal: %+v", e.IDs)
		}
		if e := ev.of(lease.EventReleased)[0]; e.IDs.Issued != 15 {
			t.Errorf("at the release: %+v", e.IDs)
		}
	})
}
