package leasepool

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Raise reserves every millisecond up to a time, by default and at least now, and ends
// all leases, even those that have reserved more. It removes the verdict on the table. It
// is for a table that was restored from a backup, which has lost the reservations made
// since: stop the whole fleet, restore, raise to a time after the last ID, start the
// fleet. Node IDs that the backup lacks begin after that time too: it becomes the floor
// of the pool.
func (p *Pool) Raise(ctx context.Context, to time.Time) (c Changes, err error) {
	if to, err = floor(to); err != nil {
		return c, fmt.Errorf("lease: raise pool %q: %w", p.Name, err)
	}
	if c.Pool, err = p.itemInTime(ctx); err != nil {
		return c, err
	}
	if err := p.raiseFloor(ctx, &c, to); err != nil {
		return c, err
	}
	// Invariant: after a raise all cards are copies of this item: its revision is above theirs.
	// The verdict belongs to the table before the restore, and so do cards that are ahead:
	// items were put back from a backup beside them.
	ahead, err := p.ahead(ctx, c.Pool)
	if err != nil {
		return c, err
	}
	if c.Pool, err = p.change(ctx, protocol.ForgetVerdict{Pool: p.Name, Behind: ahead}); err != nil {
		return c, err
	}
	if err := p.publish(ctx, c.Pool); err != nil {
		return c, err
	}
	err = p.sweep(ctx, maxGroups, &c.Corrupt, func(ctx context.Context, s *sweep, _ int, g protocol.Group) error {
		for _, l := range g.Leases {
			key := protocol.Key{Pool: p.Name, NodeID: l.NodeID}
			var w protocol.Write = protocol.Raise{Key: key, To: to}
			if _, needed := w.Apply(&l); !needed {
				if l.Holder == "" {
					continue
				}
				// A lease that had grown: its holder too is from before the restore.
				w = protocol.ForceRelease{Key: key, Version: l.Version, Holder: l.Holder}
			}
			if _, err := s.do(ctx, w, &c.Raised); err != nil {
				return err
			}
		}
		return nil
	})
	return c, err
}
