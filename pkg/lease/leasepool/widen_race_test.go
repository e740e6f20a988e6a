package leasepool_test

import (
	"context"
	"strings"
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
					protocol.AddNodeIDs{Pool: "orders", From: 300, To: 512, Try: p.Widening.Try},
				} {
					if res, err := s.WritePool(t.Context(), w); err != nil || !res.Applied {
						t.Error(res, err)
					}
				}
				late := protocol.SeedOf(item(t, s), 400, time.Now()) // its holder may not have read of any try
				if res, err := s.Write(t.Context(), late); err != nil || !res.Applied {
					t.Error(res, err)
				}
				if other {
					begin := protocol.NextTry(item(t, s), nil, time.Now(), time.Minute)
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
			if p.Widening.State != protocol.WidenDone || p.ExistBelow != 1000 {
				t.Fatalf("got %+v with %d node IDs, want it done and 1000", p.Widening, p.ExistBelow)
			}
			for n := p.ExcludeBelow; n < p.ExistBelow; n++ {
				if l, err := s.Get(t.Context(), "orders", n); err != nil || l == nil || l.WidenTry != p.Widening.Try {
					t.Fatalf("node %d is %+v, %v, want the mark of try %d", n, l, err, p.Widening.Try)
				}
			}
		})
	}
}

// deafNode is a store in which the marks of one node ID are refused although its item does
// not show why, as DynamoDB refuses them if widen_try is NULL.
type deafNode struct {
	protocol.Store
	node int
}

func (s deafNode) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if m, mark := w.(protocol.Mark); mark && m.NodeID == s.node {
		l, err := s.Get(ctx, m.Pool, m.NodeID)
		return protocol.Result{Lease: l}, err
	}
	return s.Store.Write(ctx, w)
}

// One broken item stops a widening, with an error that names the node ID. The widening
// neither repeats its requests without end nor makes the pool's item corrupt.
func TestWideningBesideABrokenItem(t *testing.T) {
	for name, c := range map[string]struct {
		attribute, value string
		deaf             bool
		want             string
	}{
		"a mark from the future":                  {"widen_try", "99", false, "node 3"},
		"a reservation until the year 9999":       {"reserved_until", "253402300799000", false, "node 3"},
		"marks that are refused without a reason": {"renewal", "0", true, "node 3"},
	} {
		t.Run(name, func(t *testing.T) {
			f, p, s := audited(t, true)
			if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 600, Narrow: true}); err != nil {
				t.Fatal(err)
			}
			f.set("orders#0", "3", "SET "+c.attribute+" = :v", c.value)
			if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2}); err != nil {
				t.Fatal(err)
			}
			if c.deaf {
				p = leasepool.Open(deafNode{s, 3}, "orders")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := p.Widen(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %s", err, c.want)
			}
			if it, err := s.PoolItem(t.Context(), "orders"); err != nil || it.Widening.State == protocol.WidenOpen {
				t.Errorf("got %v and a try that is %s, want an intact item and no open try", err, it.Widening.State)
			}
		})
	}
}

// vanishing is a store whose pool is deleted before node IDs are added to it.
type vanishing struct {
	*leasetest.Memory
	asked int
	end   context.CancelFunc
}

func (s *vanishing) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	if _, adds := w.(protocol.AddNodeIDs); !adds {
		return s.Memory.WritePool(ctx, w)
	}
	if s.asked++; s.asked == 10 {
		s.end()
	}
	return protocol.PoolResult{}, ctx.Err()
}

// The item of a narrow pool is deleted by hand just before a resize adds node IDs. The resize
// ends with an error, and does not send the same write without end.
func TestPoolVanishesBeforeNodeIDsAreAdded(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	s := &vanishing{Memory: leasetest.NewMemory("", 0), end: end}
	p := narrow(t, s, 300, 1)
	if _, err := p.Resize(ctx, leasepool.Spec{Size: 400, ExcludeBelow: 8, Narrow: true}); err == nil || s.asked != 1 {
		t.Errorf("got %v after %d writes, want an error after one", err, s.asked)
	}
}
