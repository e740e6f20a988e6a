package leasepool

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Raise reserves every millisecond up to the time given by the argument to, and ends all
// leases, even those that have reserved more. A zero or past time means now. Raise also
// removes the verdict on the table. Use it for a table that was restored from a backup,
// and therefore lacks the reservations made since the backup: stop the whole fleet,
// restore the table, raise the pool to a time after the last ID, and start the fleet. The
// time becomes the floor of the pool, so that node IDs missing from the backup also begin
// after that time; Raise creates those that are missing now.
func (p *Pool) Raise(ctx context.Context, to time.Time) (c Changes, err error) {
	if err := p.absent(); err != nil {
		return c, err
	}
	if to, err = floor(to); err != nil {
		return c, fmt.Errorf("lease: raise pool %q: %w", p.Name, err)
	}
	if c.Pool, err = p.itemInTime(ctx); err != nil {
		return c, err
	}
	if err := p.raiseFloor(ctx, &c, to); err != nil {
		return c, err
	}
	// Invariant: after a raise all hint cards are copies of this item, whose revision is
	// above that of any earlier card. If the pool's item was restored from a backup but the
	// cards were not, the cards may have a higher revision than the item. The verdict on the
	// table is from before the restore as well.
	ahead, err := p.ahead(ctx, c.Pool)
	if err != nil {
		return c, err
	}
	// Invariant: c has the pool also if the raise fails from here on. Its floor is raised.
	item, err := p.change(ctx, protocol.ForgetVerdict{Pool: p.Name, Behind: ahead})
	if err != nil {
		return c, err
	}
	c.Pool = item
	if err := p.publish(ctx, c.Pool); err != nil {
		return c, err
	}
	// Invariant (S1): after a raise, all node IDs of the pool exist. A node ID that another
	// process creates later would begin at the floor that this process read before the raise.
	resized := item.Revision // the highest that a node ID has
	err = p.sweep(ctx, maxGroups, &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		s.mu.Lock()
		for _, l := range g.Leases {
			if l.Resize <= mostRevision {
				resized = max(resized, l.Resize)
			}
		}
		s.mu.Unlock()
		return s.seedGroup(ctx, &c, item, n, g, to, func(l protocol.Lease) error { return s.raise(ctx, &c, l, to) })
	})
	// Invariant: after a raise, a resize can retire and restore all node IDs. They may have a
	// higher revision than the pool's item if someone has deleted the item and its cards.
	if err == nil && resized > item.Revision {
		if item, err = p.change(ctx, protocol.ForgetVerdict{Pool: p.Name, Behind: resized - item.Revision}); err == nil {
			c.Pool = item
			err = p.publish(ctx, item)
		}
	}
	return c, err
}

// raise raises one node ID and ends its lease.
func (s *sweep) raise(ctx context.Context, c *Changes, l protocol.Lease, to time.Time) error {
	for {
		key := protocol.Key{Pool: s.Name, NodeID: l.NodeID}
		var w protocol.Write = protocol.Raise{Key: key, To: to}
		if _, needed := w.Apply(&l); !needed {
			if l.Holder == "" {
				return nil
			}
			// A grown lease may have reserved milliseconds after the time to, but its holder is
			// from before the restore as well.
			w = protocol.ForceRelease{Key: key, Version: l.Version, Holder: l.Holder}
		}
		res, err := s.send(ctx, w, &c.Raised)
		if err != nil || res.Applied || res.Lease == nil {
			return err
		}
		l = *res.Lease // it was claimed, renewed or released since it was read
	}
}
