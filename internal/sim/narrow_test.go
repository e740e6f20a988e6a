package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Worlds in which the node IDs become wider while the tasks make IDs, and wideners
// are cut off: no ID is made twice, and none is another node's by the history that
// the table tells at the end.
func TestNarrowWorld(t *testing.T) {
	seeds := []uint64{4, 5, 6, 7}
	if testing.Short() {
		seeds = seeds[:1]
	}
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			p := NewPlan(seed, 1)
			p.Narrow, p.Numbers, p.Tasks, p.Hours = true, 1500, 6, 40*time.Minute
			p.Lease.TTL = min(p.Lease.TTL, 2*lease.DefaultTTL)
			p.Lease.Reserve = 0
			w, counts, err := Run(p)
			if err != nil {
				t.Errorf("seed %d: %v\n%s", seed, err, w.History.Failure())
			}
			t.Logf("seed %d: %v: %v", seed, p, counts)
		})
	}
}
