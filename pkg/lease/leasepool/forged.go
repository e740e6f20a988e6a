package leasepool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/nodelease/nodelease/internal/protocol"
)

// watermarked is implemented by stores that keep watermarks. The in-memory store keeps
// none.
type watermarked interface {
	ReadWatermarks(ctx context.Context, pool string) (protocol.Watermarks, error)
	WriteWatermarks(ctx context.Context, pool string, group int, marks map[int]protocol.Watermark) error
	WritePoolWatermark(ctx context.Context, pool string, w protocol.PoolWatermark) error
}

// auditor compares a scan with the watermarks of earlier scans, to find changes that no
// write of this module can cause. If its store is nil, it finds nothing.
type auditor struct {
	pool  *Pool
	store watermarked
	item  Item
	old   protocol.Watermarks

	mu    sync.Mutex
	now   map[int]map[int]protocol.Watermark // by group
	doubt map[int]bool                       // node IDs to read again
}

// audit prepares the audit of a scan of the pool. It reads the watermarks first, so that
// an item that is read afterwards should be at least as new as its watermark. An item
// that appears older is in doubt and is read again.
func (p *Pool) audit(ctx context.Context, item Item) (*auditor, error) {
	a := &auditor{pool: p, item: item, now: map[int]map[int]protocol.Watermark{}, doubt: map[int]bool{}}
	table := p.table()
	// The watermarks are not part of a scan: a scan is valid even if a request for them was not
	// answered.
	if s, ok := table.(*attentive); ok {
		table = s.Store
	}
	store, ok := table.(watermarked)
	if !ok {
		return a, nil
	}
	var err error
	a.old, err = protocol.Retry(ctx, func(ctx context.Context) (protocol.Watermarks, error) { return store.ReadWatermarks(ctx, p.Name) })
	if err == nil {
		a.store = store
	}
	return a, err
}

// see compares a group, which may have been read with eventual consistency, with the
// watermarks.
func (a *auditor) see(n int, g protocol.Group) {
	if a.store == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	there := map[int]bool{}
	marks := map[int]protocol.Watermark{}
	// Invariant: a foreign item is not counted as the node ID before it, which may have been
	// deleted.
	for _, c := range g.Corrupt {
		there[c.NodeID] = there[c.NodeID] || !errors.Is(c, protocol.ErrForeignKey) // reported as corrupt
	}
	for _, l := range g.Leases {
		there[l.NodeID] = true
		old, known := a.old.Nodes[l.NodeID]
		if known && old.Broken(l) != "" || l.WidenTry > a.item.Widening.Try {
			a.doubt[l.NodeID] = true
		}
		marks[l.NodeID] = old.Max(protocol.WatermarkOf(l))
	}
	for node, old := range a.old.Nodes {
		if node/protocol.GroupSize != n {
			continue
		}
		if !there[node] {
			a.doubt[node] = true
		}
		marks[node] = marks[node].Max(old) // including those of corrupt items
	}
	a.now[n] = marks
}

// found reads the items in doubt again, with strong consistency. It returns the changes
// that no write of this module can have caused, by node ID; -1 is the pool's own item.
func (a *auditor) found(ctx context.Context) (Corrupt, error) {
	if a.store == nil {
		return nil, nil
	}
	var found Corrupt
	note := func(node int, why string) {
		if found == nil {
			found = Corrupt{}
		}
		found[node] = why
	}
	poolInDoubt := a.old.Pool != nil && a.old.Pool.Broken(a.item) != ""
	if !poolInDoubt && len(a.doubt) == 0 {
		return found, nil
	}
	// Invariant: nothing is forged unless a read that began after the watermarks were read shows
	// it. The pool's item was read before them, and a resize, a raise or a widening may have
	// changed it in between.
	item, err := a.pool.item(ctx)
	if err != nil {
		return found, err
	}
	if poolInDoubt {
		if why := a.old.Pool.Broken(item); why != "" {
			note(-1, why)
		}
	}
	for node := range a.doubt {
		l, err := protocol.Retry(ctx, func(ctx context.Context) (*protocol.Lease, error) { return a.pool.store.Get(ctx, a.pool.Name, node) })
		var corrupt Corrupt
		switch {
		case corrupt.note(err): // reported as corrupt
		case err != nil:
			return found, err
		case l == nil:
			note(node, "it was deleted")
		case l.WidenTry > item.Widening.Try:
			note(node, fmt.Sprintf("it is marked with try %d to change the width, and the pool began %d", l.WidenTry, item.Widening.Try))
		default:
			if old, known := a.old.Nodes[node]; known && old.Broken(*l) != "" {
				note(node, old.Broken(*l))
			}
		}
	}
	return found, nil
}

// keep writes the new watermarks. The watermarks of forged items do not change.
func (a *auditor) keep(ctx context.Context, found Corrupt) error {
	if a.store == nil {
		return nil
	}
	for n, marks := range a.now {
		for node := range found {
			if old, known := a.old.Nodes[node]; known && node/protocol.GroupSize == n {
				marks[node] = old // forged items do not change their watermarks
			}
		}
		before := maps.Clone(a.old.Nodes)
		maps.DeleteFunc(before, func(node int, _ protocol.Watermark) bool { return node/protocol.GroupSize != n })
		if maps.Equal(before, marks) {
			continue
		}
		if err := a.store.WriteWatermarks(ctx, a.pool.Name, n, marks); err != nil {
			return err
		}
	}
	w := protocol.PoolWatermarkOf(a.item)
	if a.old.Pool != nil && (*a.old.Pool == w || a.old.Pool.Broken(a.item) != "") {
		return nil
	}
	return a.store.WritePoolWatermark(ctx, a.pool.Name, w)
}
