package naps_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// interruptedOnDemand returns an on-demand agent whose requests are interrupted, on a new
// table. The agent is in one of the states in which a call of Refresh can begin.
func interruptedOnDemand(t *testing.T, i *fixture.Interruption, state string) (*lease.OnDemand, *fixture.Table) {
	t.Helper()
	tab := fixture.NewTable(t, 4)
	o, _ := fixture.OnDemand(t, lease.NewDynamoDB(i.Client(tab.Client("")), tab.Name))
	if state == "first use" {
		return o, tab
	}
	if _, err := o.Generator(t.Context()); err != nil {
		t.Fatal(err)
	}
	switch state {
	case "good":
		fixture.Wait(4 * time.Minute) // of 5
	case "expired":
		fixture.Wait(time.Hour)
	case "taken":
		fixture.Wait(time.Hour)
		now := time.Now()
		res, err := tab.Store("").Write(t.Context(), protocol.Claim{
			Key: protocol.Key{Pool: "orders", NodeID: o.NodeID()}, Session: "thief", Task: "another task", At: now, ClaimGuard: time.Second,
			ExpiresAt: now.Add(time.Hour), ReservedUntil: now.Add(time.Hour + time.Second),
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
	}
	return o, tab
}

// A call whose context ends at any request returns at once. After the next call,
// the agent holds one node ID, and after Close it holds none.
func TestOnDemandIsCanceledAnywhere(t *testing.T) {
	for _, state := range []string{"first use", "good", "expired", "taken"} {
		for name, call := range map[string]func(o *lease.OnDemand, ctx context.Context) error{
			"Refresh": (*lease.OnDemand).Refresh,
			"Generator": func(o *lease.OnDemand, ctx context.Context) error {
				g, err := o.Generator(ctx)
				if (g == nil) == (err == nil) {
					t.Errorf("got the generator %v and the error %v, want one of them", g, err)
				}
				return err
			},
		} {
			if name == "Generator" && state != "first use" {
				continue // the agent already has the layout
			}
			for _, again := range []bool{true, false} {
				t.Run(name+" "+state+map[bool]string{true: " again", false: " closed"}[again], func(t *testing.T) {
					fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
						o, tab := interruptedOnDemand(t, i, state)
						_ = i.Run(t, 0, func(ctx context.Context) error { return call(o, ctx) })
						if again {
							if err := call(o, t.Context()); err != nil {
								t.Errorf("again: got %v, want nil", err)
							}
							if _, err := o.Lease(); err != nil {
								t.Errorf("Lease: got %v, want nil", err)
							}
							if got := tab.Held(t, 4, "test"); got != 1 {
								t.Errorf("got %d node IDs held, want 1", got)
							}
							g, err := o.Generator(t.Context())
							if err != nil {
								t.Fatal(err)
							}
							if _, err := g.Next(); err != nil {
								t.Errorf("Next: got %v, want an ID", err)
							}
						}
						began := time.Now()
						if err := o.Close(); err != nil || time.Since(began) > 3*time.Second {
							t.Errorf("Close: got %v after %v, want nil within 3 s", err, time.Since(began))
						}
						if got := tab.Held(t, 4, "test"); got != 0 && state != "expired" { // an expired lease needs no release
							t.Errorf("after Close: got %d node IDs held, want none", got)
						}
					})
				})
			}
		}
	}
}

// If the agent is closed at any request of a call, the call returns ErrClosed,
// and no node ID stays held.
func TestOnDemandIsClosedAnywhere(t *testing.T) {
	for _, state := range []string{"first use", "good", "expired", "taken"} {
		t.Run(state, func(t *testing.T) {
			fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
				o, tab := interruptedOnDemand(t, i, state)
				var closed error
				i.Instead, i.Want = func() { closed = o.Close() }, lease.ErrClosed
				_ = i.Run(t, 0, func(ctx context.Context) error {
					_, err := o.Generator(ctx)
					return err
				})
				if closed != nil {
					t.Errorf("Close: got %v, want nil", closed)
				}
				if err := o.Close(); err != nil {
					t.Errorf("Close again: got %v, want nil", err)
				}
				if got := tab.Held(t, 4, "test"); got != 0 && state != "expired" {
					t.Errorf("after Close: got %d node IDs held, want none", got)
				}
			})
		})
	}
}
