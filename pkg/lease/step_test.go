package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// The first renewal after a claim, and after an outage of any length, comes at any time
// of an interval: agents that start or come back together are out of step at once.
func TestFirstRenewal(t *testing.T) {
	const fleet = 200
	for what, away := range map[string]time.Duration{"a start": 0, "an outage that the leases outlive": 8 * time.Second, "an outage": time.Minute} {
		t.Run(what, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(fleet)
				var down atomic.Bool
				s.On(func(_ context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
					if down.Load() {
						return protocol.Result{}, errors.New("no answer")
					}
					return do()
				})
				var mu sync.Mutex
				last, pauses := map[int]time.Time{}, map[int]time.Duration{}
				cfg := fixture.Config(s)
				cfg.OnEvent = func(e lease.Event) {
					mu.Lock()
					defer mu.Unlock()
					switch n := e.Lease.NodeID; e.Kind {
					case lease.EventClaimed, lease.EventRenewed:
						d := time.Since(last[n])
						// After long outages a renewal follows at once, since the first reserves too little.
						if _, known := pauses[n]; !known && !last[n].IsZero() && d > time.Second/10 {
							pauses[n] = d
						}
						last[n] = time.Now()
					}
				}
				for range fleet {
					fixture.Start(t, cfg)
				}
				if away > 0 {
					down.Store(true)
					fixture.Wait(away)
					mu.Lock()
					clear(last)
					clear(pauses)
					mu.Unlock()
					down.Store(false)
				}
				fixture.Wait(20 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				fifths := [5]int{}
				for n, d := range pauses {
					if d < 2500*time.Millisecond || d > 7501*time.Millisecond {
						t.Errorf("node %d renews after %v, want half of 5 s to one and a half", n, d)
						continue
					}
					fifths[min(int((d-2500*time.Millisecond)/time.Second), 4)]++
				}
				for _, n := range fifths {
					if len(pauses) != fleet || n < fleet/20 || n > fleet*2/5 {
						t.Fatalf("%d agents by fifth of the interval: %v, want %d spread evenly", len(pauses), fifths, fleet)
					}
				}
			})
		})
	}
}
