package leasepool_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// poolWrites is a store that calls a function before the first write of a kind.
type poolWrites struct {
	protocol.Store
	before func(w protocol.PoolWrite) bool // returns true if it should not be called again
	done   bool
}

func (s *poolWrites) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	if !s.done {
		s.done = true
		s.done = s.before(w)
	}
	return s.Store.WritePool(ctx, w)
}

func isBegin(w protocol.PoolWrite) bool { _, ok := w.(protocol.BeginWiden); return ok }

// A resize adds node IDs while a widener begins a try. When the new width is committed,
// every node ID of the pool has the mark, including node IDs that the widener had not
// read at first. In the second case, another process opens a try in the meantime, and the
// widener joins that try.
func TestWidenBesideAResize(t *testing.T) {
	for name, other := range map[string]bool{"its own try": false, "another widener's try": true} {
		t.Run(name, func(t *testing.T) {
			s := leasetest.NewMemory("", 0)
			narrow(t, s, 300, 2)
			racing := &poolWrites{Store: s, before: func(w protocol.PoolWrite) bool {
				if !isBegin(w) {
					return false
				}
				p := item(t, s)
				for _, w := range []protocol.PoolWrite{
					protocol.ResizePool{Pool: "orders", Revision: p.Revision, To: 1000, At: time.Now()},
					protocol.AddNumbers{Pool: "orders", From: 300, To: 512, Try: p.Widening.Try},
				} {
					if res, err := s.WritePool(t.Context(), w); err != nil || !res.Applied {
						t.Error(res, err)
					}
				}
				late := item(t, s).SeedOf(400, time.Now()) // its holder may not have read of any try
				if res, err := s.Write(t.Context(), late); err != nil || !res.Applied {
					t.Error(res, err)
				}
				if other {
					begin := item(t, s).Begin(nil, time.Now(), time.Minute)
					if res, err := s.WritePool(t.Context(), begin); err != nil || !res.Applied {
						t.Error(res, err)
					}
				}
				return true
			}}
			if _, err := leasepool.Open(racing, "orders").Widen(t.Context()); err != nil {
				t.Fatal(err)
			}
			p := item(t, s)
			if p.Widening.State != protocol.WidenDone || p.Numbers != 1000 {
				t.Fatalf("got %+v with %d node IDs, want it done and 1000", p.Widening, p.Numbers)
			}
			for n := p.ExcludeBelow; n < p.Numbers; n++ {
				if l, err := s.Get(t.Context(), "orders", n); err != nil || l == nil || l.WidenTry != p.Widening.Try {
					t.Fatalf("node %d is %+v, %v, want the mark of try %d", n, l, err, p.Widening.Try)
				}
			}
		})
	}
}
