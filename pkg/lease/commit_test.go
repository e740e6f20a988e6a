package lease_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// A late commit of an old try is refused also where the present one begins at the
// same millisecond and has the same width: its numbers may not be marked yet.
func TestCommitIsPinnedToItsTry(t *testing.T) {
	onEachStore(t, func(t *testing.T, s lease.Store, _ func(int)) {
		narrow(t, s, 700, 2)
		from := time.Now().Add(time.Hour)
		for i, w := range []lease.PoolWrite{
			lease.BeginWiden{Pool: "orders", Try: 1, Seen: lease.WidenDone, From: from, Bits: 10},
			lease.VoidWiden{Pool: "orders", Try: 1},
			lease.BeginWiden{Pool: "orders", Try: 2, Seen: lease.WidenVoid, From: from, Bits: 10},
		} {
			if res, err := s.WritePool(t.Context(), w); err != nil || !res.Applied {
				t.Fatal(i, res, err)
			}
		}
		res, err := s.WritePool(t.Context(), lease.CommitWiden{Pool: "orders", Try: 1, From: from, Bits: 10})
		if err != nil || res.Applied {
			t.Errorf("try 1 was committed over try 2: %+v, %v", res.Pool, err)
		}
	})
}
