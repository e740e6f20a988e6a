package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// off is a member's backend that shifts the times of the member's heartbeats.
type off struct {
	cluster.Coordinator
	by time.Duration
}

func (o off) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	b.At = b.At.Add(o.by)
	return o.Coordinator.Heartbeat(ctx, b)
}

// The clocks of two members differ by the limit, a tenth of the time-out. Each member
// sees that the other is alive, and at most one believes that it leads, even while the
// leader is stopped and comes back. The test shifts the times of one member's heartbeats
// back and those of the other's forward. That has the same effect as clocks that differ,
// because each member judges the other's heartbeats.
func TestClocksOffByTheLimit(t *testing.T) {
	for name, by := range map[string]time.Duration{"the leader is behind": timeout / 10, "the leader is ahead": -timeout / 10} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t, 8)
				link := &frozen{Coordinator: off{dynamocoordinator.New(tab.Client("a"), tab.Name), -by}}
				a := join(t, link, "a")
				fixture.Wait(time.Second)
				b := join(t, off{dynamocoordinator.New(tab.Client("b"), tab.Name), by}, "b")
				watch := func(during time.Duration, alive bool) {
					t.Helper()
					for range during / (100 * time.Millisecond) {
						if leader(a) == "a" && leader(b) == "b" {
							t.Fatal("both believe that they lead")
						}
						if alive && (a.State().Len() != 2 || b.State().Len() != 2) {
							t.Fatalf("a sees %q, b sees %q, want both in each", names(a.State()), names(b.State()))
						}
						fixture.Wait(100 * time.Millisecond)
					}
				}
				watch(3*settled, false)
				watch(time.Minute, true)
				if leader(a) != "a" || leader(b) != "a" {
					t.Fatalf("a reports %s as leader, b reports %s, want leader a", leader(a), leader(b))
				}
				link.mu.Lock()
				link.before = 4 * timeout
				link.mu.Unlock()
				watch(4*timeout+4*settled, false)
				watch(time.Minute, true)
				if leader(a) != "b" || leader(b) != "b" {
					t.Errorf("a reports %s as leader, b reports %s, want leader b", leader(a), leader(b))
				}
			})
		})
	}
}

// A node is suspended for ten minutes and sends no heartbeat meanwhile. Its old session
// never comes back, and its new session is the youngest.
func TestSuspendedForTenMinutes(t *testing.T) {
	backendsFor(t, func(t *testing.T, shared cluster.Coordinator) {
		link := &frozen{Coordinator: shared}
		a := join(t, link, "a")
		fixture.Wait(time.Second)
		b := join(t, shared, "b")
		fixture.Wait(2 * settled)
		before := a.Self().SessionID
		link.mu.Lock()
		link.before = 10 * time.Minute
		link.mu.Unlock()
		fixture.Wait(9 * time.Minute)
		if names(b.State()) != "b" || leader(b) != "b" || leader(a) == "a" {
			t.Fatalf("b sees %q led by %s, a reports %s as leader", names(b.State()), leader(b), leader(a))
		}
		for range 3 * 60 {
			if _, there := b.State().Member(before); there {
				t.Fatal("the session came back")
			}
			fixture.Wait(time.Second)
		}
		if a.Self().SessionID == before || names(b.State()) != "b a" || !a.State().Equal(b.State()) || leader(a) != "b" {
			t.Errorf("a is %+v and sees %q led by %s; b sees %q", a.Self(), names(a.State()), leader(a), names(b.State()))
		}
	})
}

// The clocks of two lease holders differ by nearly the limit of the guards, 1.5 s. A
// member whose clock is behind is not dropped while it renews. A silent member whose
// clock is ahead does not lead together with its successor.
func TestLeasesWithClocksOffByTheLimit(t *testing.T) {
	for name, by := range map[string]time.Duration{"the leader is behind": -1400 * time.Millisecond, "the leader is ahead": 1400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t, 8)
				start := func(name string, clock lease.Clock) *cluster.Node {
					client := tab.Client(name)
					agent := fixture.Start(t, lease.Config{Store: lease.NewDynamoDB(client, tab.Name), Pool: "orders", Task: name, Logger: silent, Clock: clock})
					return join(t, dynamocoordinator.New(client, tab.Name), name, func(c *cluster.Config) { c.Agent, c.Cluster = agent, "" })
				}
				fixture.Wait(2 * time.Second) // so that a clock that is behind is past the time of the pool's seed
				a := start("a", leasetest.NewClock(by))
				fixture.Wait(time.Second)
				b := start("b", nil)
				watch := func(during time.Duration, alive bool) {
					t.Helper()
					for range during / (100 * time.Millisecond) {
						if leader(a) == "a" && leader(b) == "b" {
							t.Fatal("both believe that they lead")
						}
						if alive && (a.State().Len() != 2 || b.State().Len() != 2) {
							t.Fatalf("a sees %q, b sees %q, want both in each", names(a.State()), names(b.State()))
						}
						fixture.Wait(100 * time.Millisecond)
					}
				}
				watch(3*settled, false)
				watch(time.Minute, true)
				if leader(a) != "a" || leader(b) != "a" {
					t.Fatalf("a reports %s as leader, b reports %s, want leader a", leader(a), leader(b))
				}
				tab.SetAway("a", true)
				watch(4*timeout, false)
				if leader(b) != "b" {
					t.Fatalf("b reports %s as leader, want b", leader(b))
				}
				tab.SetAway("a", false)
				watch(4*settled, false)
				watch(time.Minute, true)
				if leader(a) != "b" || leader(b) != "b" {
					t.Errorf("a reports %s as leader, b reports %s, want leader b", leader(a), leader(b))
				}
			})
		})
	}
}
