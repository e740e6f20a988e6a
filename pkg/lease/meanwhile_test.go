package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// The following tests are about what others do to a pool while an agent starts.

// shrinking is a store whose pool is made smaller just before its item is read for the
// second time. Its node IDs are not retired yet.
type shrinking struct {
	*leasetest.Memory
	reads int
}

func (s *shrinking) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.Memory.PoolItem(ctx, pool)
	if s.reads++; s.reads != 2 || err != nil {
		return p, err
	}
	res, err := s.WritePool(ctx, protocol.ResizePool{Pool: pool, Revision: p.Revision, To: 100, At: time.Now()})
	if err != nil {
		return p, err
	}
	return *res.Pool, nil
}

// A pool becomes smaller while an agent claims one of the node IDs that are about to be
// retired. The agent uses this node ID, as other holders of such node IDs do.
func TestPoolShrinksDuringAClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &shrinking{Memory: leasetest.NewMemory("orders", 1280)}
		for n := range 255 {
			fixture.Hold(t, s.Memory, n, time.Now(), time.Minute)
		}
		// A pool that is mostly taken, so that the agent reads a group first. The group is nearly
		// full, so the agent reads the pool's item again before it claims.
		res, err := s.WritePool(t.Context(), protocol.Measure{Pool: "orders", Measured: protocol.Measured{Held: 1000, At: time.Now(), Valid: time.Hour}})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		a := fixture.Start(t, fixture.Config(s))
		if _, err := fixture.IDs(t, a).Next(); err != nil || a.NodeID() != 255 || s.reads < 2 {
			t.Errorf("got node %d, %v after %d reads of the pool's item, want node 255", a.NodeID(), err, s.reads)
		}
	})
}
