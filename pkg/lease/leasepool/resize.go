package leasepool

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Resize changes how many numbers the pool has. Growing takes retired numbers
// back into use and seeds the missing ones; all that before the pool says that it
// is larger. Shrinking retires the highest, after it says that it is smaller;
// their holders may finish (Changes.Finishing), and nothing is ever deleted.
func (p *Pool) Resize(ctx context.Context, s Spec) (c Changes, err error) {
	if s, err = s.check(p.Name); err != nil {
		return c, err
	}
	if c.Pool, err = p.itemInTime(ctx); err != nil {
		return c, err
	}
	from := c.Pool.Size
	if s.ReservedLow != c.Pool.ReservedLow || s.Narrow != c.Pool.Narrow() {
		return c, s.fits(c.Pool)
	}
	if c.Pool.Narrow() { // an unfinished change of the width is finished first
		if c, err = p.Widen(ctx); err == nil && s.Size > from {
			err = p.grow(ctx, &c, s.Size)
		}
		if err != nil {
			return c, err
		}
	}
	if s.Size > from {
		c.Pool.Size = s.Size
		if err := p.settle(ctx, &c, c.Pool.Groups(), s.Floor); err != nil {
			c.Pool.Size = from
			return c, err
		}
	}
	if s.Size != from {
		w := protocol.ResizePool{Pool: p.Name, From: from, To: s.Size, At: time.Now()}
		_, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolResult, error) { return p.store.WritePool(ctx, w) })
		if err != nil {
			return c, err
		}
	}
	// Someone else may resize at the same time, to another size. Whoever is last
	// leaves the numbers as the pool's item says.
	for {
		if c.Pool, err = p.item(ctx); err != nil {
			return c, err
		}
		c.Finishing = 0
		if err := p.settle(ctx, &c, maxGroups, s.Floor); err != nil {
			return c, err
		}
		now, err := p.item(ctx)
		if err != nil {
			return c, err
		}
		if now.Size == c.Pool.Size {
			break
		}
	}
	if c.Pool.Size != s.Size {
		return c, fmt.Errorf("lease: pool %q was resized to %d by someone else at the same time: run it again if %d is right", p.Name, c.Pool.Size, s.Size)
	}
	return c, nil
}

// Raise reserves every millisecond up to a time, by default and at least now, and
// ends the leases that had less. It is for a table that was restored from a
// backup, which has forgotten what was stamped since: stop the whole fleet,
// restore, raise to a time behind the last ID that was made, start the fleet.
func (p *Pool) Raise(ctx context.Context, to time.Time) (c Changes, err error) {
	if to, err = floor(to); err != nil {
		return c, fmt.Errorf("lease: raise pool %q: %w", p.Name, err)
	}
	if c.Pool, err = p.itemInTime(ctx); err != nil {
		return c, err
	}
	err = p.sweep(ctx, maxGroups, &c.Corrupt, func(ctx context.Context, s *sweep, _ int, g protocol.Group) error {
		for _, l := range g.Leases {
			w := protocol.Raise{Key: protocol.Key{Pool: p.Name, NodeID: l.NodeID}, To: to}
			if _, needed := w.Apply(&l); !needed {
				continue
			}
			if _, err := s.do(ctx, w, &c.Raised); err != nil {
				return err
			}
		}
		return nil
	})
	return c, err
}

// ForceRelease frees a number by an operator's word, whether its lease has
// expired or not, if it still has the version that the operator saw. Its holder
// loses it at the next renewal. IDs stay unique, and the next holder waits for
// the milliseconds that are reserved. Freeing what is free already is no error.
func (p *Pool) ForceRelease(ctx context.Context, nodeID int, version int64) (protocol.Lease, error) {
	if err := protocol.CheckPoolName(p.Name); err != nil || nodeID < 0 || nodeID >= protocol.MaxPoolSize {
		return protocol.Lease{}, fmt.Errorf("lease: force release of node %d in pool %q: use a node from 0 to %d and a pool's name: %w", nodeID, p.Name, protocol.MaxPoolSize-1, err)
	}
	res, err := p.write(ctx, protocol.ForceRelease{Key: protocol.Key{Pool: p.Name, NodeID: nodeID}, Version: version})
	switch {
	case err != nil:
		return protocol.Lease{}, err
	case res.Lease == nil:
		return protocol.Lease{}, fmt.Errorf("lease: pool %q has no node %d: nothing to release", p.Name, nodeID)
	case res.Lease.Version != version:
		return *res.Lease, fmt.Errorf("lease: node %d of pool %q has version %d by now, not %d: look again whose it is before releasing it", nodeID, p.Name, res.Lease.Version, version)
	}
	return *res.Lease, nil
}
