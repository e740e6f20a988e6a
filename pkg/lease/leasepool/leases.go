package leasepool

import (
	"context"
	"iter"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Lease is one node ID of a pool, as stored in the table. It has the same fields as
// lease.Lease. The conversion lease.Lease(l) makes its State comparable with lease.Held
// and the other states.
type Lease = protocol.Lease

// Leases yields every node ID that has an item, lowest first, including retired ones.
// A corrupt item is yielded with its *CorruptError, and the iteration continues; any other
// error ends it.
func (p *Pool) Leases(ctx context.Context) iter.Seq2[Lease, error] {
	return func(yield func(Lease, error) bool) {
		if err := p.absent(); err != nil {
			yield(Lease{}, err)
			return
		}
		item, err := p.item(ctx)
		groups := item.Groups()
		for n := 0; err == nil && n < min(groups, maxGroups); n++ {
			var g protocol.Group
			if g, err = p.group(ctx, n); err != nil {
				break
			}
			for _, c := range g.Corrupt {
				if !yield(Lease{Pool: p.Name, NodeID: c.NodeID}, c) {
					return
				}
			}
			for _, l := range g.Leases {
				if !yield(l, nil) {
					return
				}
			}
			if n == groups-1 && !empty(g) {
				groups++
			}
		}
		if err != nil {
			yield(Lease{}, err)
		}
	}
}

// glance reads the node IDs of group n, counted from 0, with an eventually consistent read
// if the store offers it.
func (p *Pool) glance(ctx context.Context, n int) (protocol.Group, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) {
		return protocol.EventualGroup(ctx, p.table(), p.Name, n)
	})
}

func empty(g protocol.Group) bool { return len(g.Leases) == 0 && len(g.Corrupt) == 0 }
