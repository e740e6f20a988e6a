package leasepool_test

import (
	"context"
	"sync"
	"testing"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// recorder keeps every write that was sent.
type recorder struct {
	protocol.Store
	mu     sync.Mutex
	writes []protocol.Write
	pools  []protocol.PoolWrite
}

func (s *recorder) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	s.mu.Lock()
	s.writes = append(s.writes, w)
	s.mu.Unlock()
	return s.Store.Write(ctx, w)
}

func (s *recorder) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	s.mu.Lock()
	s.pools = append(s.pools, w)
	s.mu.Unlock()
	return s.Store.WritePool(ctx, w)
}

// If a request of a resize arrives again after later resizes, it changes nothing, even if
// the pool has the same size as when the request was first sent.
func TestReplayedResizeChangesNothing(t *testing.T) {
	s := leasetest.NewMemory("orders", 8)
	rec := &recorder{Store: s}
	for _, size := range []int{4, 8, 6} {
		if _, err := leasepool.Open(rec, "orders").Resize(t.Context(), leasepool.Spec{Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	if len(rec.pools) != 3 || len(rec.writes) != 4+4+2 {
		t.Fatalf("got %d writes of the pool and %d of node IDs, want 3 and 10", len(rec.pools), len(rec.writes))
	}
	before, _ := all(t, leasepool.Open(s, "orders"))
	pool := item(t, s)
	for _, w := range rec.writes {
		if res, err := s.Write(t.Context(), w); err != nil || res.Applied {
			t.Errorf("replayed %+v: got %+v, %v, want it refused", w, res.Lease, err)
		}
	}
	for _, w := range rec.pools {
		if res, err := s.WritePool(t.Context(), w); err != nil || res.Applied {
			t.Errorf("replayed %+v: got %+v, %v, want it refused", w, res.Pool, err)
		}
	}
	after, _ := all(t, leasepool.Open(s, "orders"))
	if asJSON(t, after) != asJSON(t, before) || asJSON(t, item(t, s)) != asJSON(t, pool) {
		t.Errorf("got %s\nwant %s", asJSON(t, after), asJSON(t, before))
	}
}

// If an agent opens a group while a resize is in progress, the resize does not mistake
// that for another resize.
func TestResizeBesideAnOpenedGroup(t *testing.T) {
	s := leasetest.NewMemory("orders", 3000)
	racing := &poolWrites{Store: s, before: func(protocol.PoolWrite) bool {
		if res, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2}); err != nil || !res.Applied {
			t.Error(res, err)
		}
		return true
	}}
	if c, err := leasepool.Open(racing, "orders").Resize(t.Context(), leasepool.Spec{Size: 2000}); err != nil || c.Pool.Size != 2000 || c.Pool.OpenGroups != 2 {
		t.Errorf("got size %d and %d open groups, %v, want 2000 and 2", c.Pool.Size, c.Pool.OpenGroups, err)
	}
	inUse(t, leasepool.Open(s, "orders"), 2000)
}
