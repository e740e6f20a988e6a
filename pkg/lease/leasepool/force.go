package leasepool

import (
	"context"
	"fmt"

	"github.com/nodelease/nodelease/internal/protocol"
)

// ForceRelease frees a node ID for an operator, whether its lease has expired or not, if
// the node ID still has the version that the operator saw. The holder loses the node ID
// at its next renewal. IDs stay unique, and the next holder waits until the reserved
// milliseconds have passed. Freeing a free node ID is not an error.
func (p *Pool) ForceRelease(ctx context.Context, nodeID int, version int64) (Lease, error) {
	if err := p.absent(); err != nil {
		return Lease{}, err
	}
	if err := protocol.CheckPoolName(p.Name); err != nil {
		return Lease{}, fmt.Errorf("lease: force release of node %d: %w", nodeID, err)
	}
	if nodeID < 0 || nodeID >= protocol.MaxPoolSize {
		return Lease{}, fmt.Errorf("lease: force release of node %d in pool %q: use a node from 0 to %d", nodeID, p.Name, protocol.MaxPoolSize-1)
	}
	w := protocol.ForceRelease{Key: protocol.Key{Pool: p.Name, NodeID: nodeID}, Version: version}
	seen, err := protocol.Retry(ctx, func(ctx context.Context) (*protocol.Lease, error) { return p.table().Get(ctx, p.Name, nodeID) })
	if err != nil {
		return Lease{}, err
	}
	if seen != nil && seen.Version == version {
		w.Holder = seen.Holder
	}
	res, err := p.write(ctx, w)
	switch {
	case err != nil:
		return Lease{}, err
	case res.Lease == nil:
		return Lease{}, fmt.Errorf("lease: pool %q has no node %d: nothing to release", p.Name, nodeID)
	case res.Lease.Version != version:
		return *res.Lease, fmt.Errorf("lease: node %d of pool %q has version %d by now, not %d: look again whose it is before releasing it", nodeID, p.Name, res.Lease.Version, version)
	}
	return *res.Lease, nil
}
