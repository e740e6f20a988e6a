package leasepool_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
)

// A late commit of an old try is refused even if the present try begins at the same
// millisecond and has the same width: node IDs may not be marked for the present try yet.
func TestCommitIsPinnedToItsTry(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		narrow(t, s, 700, 2)
		from := time.Now().Add(time.Hour)
		for i, w := range []protocol.PoolWrite{
			protocol.BeginWiden{Pool: "orders", Try: 1, Seen: protocol.WidenDone, From: from, Bits: 10, ExistBelow: 512},
			protocol.VoidWiden{Pool: "orders", Try: 1},
			protocol.BeginWiden{Pool: "orders", Try: 2, Seen: protocol.WidenVoid, From: from, Bits: 10, ExistBelow: 512},
		} {
			if res, err := s.WritePool(t.Context(), w); err != nil || !res.Applied {
				t.Fatal(i, res, err)
			}
		}
		res, err := s.WritePool(t.Context(), protocol.CommitWiden{Pool: "orders", Try: 1, From: from, Bits: 10})
		if err != nil || res.Applied {
			t.Errorf("try 1 was committed over try 2: %+v, %v", res.Pool, err)
		}
	})
}
