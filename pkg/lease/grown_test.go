package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Pools that changed between a look and its use.

// A task that waits for a number gets one that was seeded while it waited.
func TestWaitForAResize(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		start(t, config(s))
		time.AfterFunc(10*time.Second, func() {
			if _, err := leasepool.Open(s, "orders").Resize(context.WithoutCancel(t.Context()), leasepool.Spec{Size: 2}); err != nil {
				t.Error(err)
			}
		})
		cfg := config(s)
		cfg.Wait = time.Minute
		a := start(t, cfg)
		if _, err := ids(t, a).Next(); err != nil || a.NodeID() != 1 {
			t.Errorf("node %d, %v", a.NodeID(), err)
		}
	})
}

// A holder that lost its number finds the pool grown beyond its layout: it ends,
// says why, and leaves no number behind.
func TestReacquireInAPoolThatOutgrewTheLayout(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1024)
		cfg := config(s)
		cfg.OnLost = lease.Reacquire
		a := start(t, cfg)
		ids(t, a) // 10 node bits
		if _, err := leasepool.Open(s, "orders").Resize(t.Context(), leasepool.Spec{Size: 1025}); err != nil {
			t.Fatal(err)
		}
		taken(t, s, a)
		fixture.Wait(10 * time.Second)
		select {
		case <-a.Done():
		default:
			t.Fatal("it goes on without a number that it could use")
		}
		stats, err := leasepool.Open(s, "orders").Stats(t.Context())
		if err != nil || stats.Held != 1 { // the thief's
			t.Errorf("%+v, %v", stats, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// All groups that are open are reserved: the first guess falls behind them.
func TestReservedBeyondTheOpenGroups(t *testing.T) {
	for _, reserved := range []int{255, 256, 300, 512, 1500} {
		fixture.Virtual(t, func(t *testing.T) {
			s := leasetest.NewMemory("", 0)
			if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1537, ReservedLow: reserved}); err != nil {
				t.Fatal(err)
			}
			for range 30 {
				if a := start(t, config(s)); a.NodeID() < reserved || a.NodeID() >= 1537 {
					t.Fatalf("node %d with %d reserved", a.NodeID(), reserved)
				}
			}
		})
	}
}
