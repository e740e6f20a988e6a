package leasepool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nodelease/nodelease/internal/protocol"
)

// free frees the leases that have not changed since the scan, with one attempt for each.
// It stops after the first unanswered request, since holders may get no answers either.
func (p *Pool) free(ctx context.Context, d dues, some candidates, r *ReapReport) (freed []int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	nodes := slices.Sorted(maps.Keys(some))
	var pace pace
	var mu sync.Mutex // for nodes, freed and r
	take := func() (node int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(nodes) == 0 || ctx.Err() != nil {
			return 0, false
		}
		node, nodes = nodes[0], nodes[1:]
		return node, true
	}
	var wg sync.WaitGroup
	for range min(len(nodes), sweepers) {
		wg.Go(func() {
			for node, ok := take(); ok; node, ok = take() {
				applied, err := p.freeOne(ctx, &pace, d.seen[node])
				mu.Lock()
				if r.Corrupt.note(err) {
					err = nil
				}
				if applied {
					freed = append(freed, node)
				}
				mu.Unlock()
				if err != nil {
					cancel(unanswered(err))
					return
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(freed)
	r.Freed = append(r.Freed, freed...)
	if err := context.Cause(ctx); err != nil {
		return freed, fmt.Errorf("lease: pool %q: %d of %d leases freed; a later run checks the others again: %w", p.Name, len(freed), len(some), err)
	}
	return freed, nil
}

// freeOne frees a lease only if it has not changed since the last scan. A holder that has
// renewed since then is alive, regardless of its lease's expiry and of this machine's
// clock.
func (p *Pool) freeOne(ctx context.Context, pace *pace, l protocol.Lease) (applied bool, err error) {
	if err := pace.wait(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, protocol.CallLimit)
	defer cancel()
	res, err := p.table().Write(ctx, protocol.Reap{Key: protocol.Key{Pool: p.Name, NodeID: l.NodeID}, Holder: l.Holder, Version: l.Version, Renewal: l.Renewal})
	return res.Applied, err
}
