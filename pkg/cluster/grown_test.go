package cluster_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
)

// A node that starts with an agent whose lease has grown has the same time-out as the
// other nodes, whether Timeout is given or not, because Start makes the lease short
// again.
func TestStartOnAGrownLease(t *testing.T) {
	for name, given := range map[string]time.Duration{"by default": 0, "given": timeout} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(64)
				w := protocol.Measure{Pool: "orders", Measured: protocol.Measured{Held: 1, At: time.Now(), Valid: 24 * time.Hour}}
				if res, err := s.WritePool(t.Context(), w); err != nil || !res.Applied {
					t.Fatal(res, err)
				}
				cfg := fixture.Config(s)
				cfg.MaxTTL, cfg.Grow = 15*time.Minute, true
				a := fixture.Start(t, cfg)
				fixture.Wait(9 * time.Hour)
				if l, err := a.Lease(); err != nil || l.TTL <= timeout {
					t.Fatalf("got %+v, %v, want a grown lease", l, err)
				}
				c := clustertest.NewMemory()
				n := join(t, c, "a", func(cfg *cluster.Config) { cfg.Agent, cfg.Timeout = a, given })
				short := func(when string) {
					fixture.Wait(time.Second)
					if l, err := s.Get(t.Context(), "orders", a.NodeID()); err != nil || l.TTL != timeout {
						t.Errorf("%s the lease is %+v, %v, want %v long", when, l, err, timeout)
					}
				}
				short("a second after the start")
				away := &network{Coordinator: c}
				join(t, away, "b")
				fixture.Wait(settled)
				if all := names(n.State()); all != "a b" {
					t.Fatalf("the node sees %q, want a and b", all)
				}
				away.set(true, nil)
				fixture.Wait(settled + timeout)
				if all := names(n.State()); all != "a" {
					t.Errorf("%v after the last heartbeat of b the node sees %q, want only a", settled+timeout, all)
				}
				fixture.Wait(time.Hour)
				short("an hour later")
			})
		})
	}
}
