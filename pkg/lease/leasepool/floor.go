package leasepool

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// farFuture is how far ahead a floor may be. A later time is treated as a mistake, since a
// node ID cannot be used before its floor, and a floor cannot be lowered.
const farFuture = 366 * 24 * time.Hour

// floor checks t, a time before which nothing may be stamped, and returns it. It returns
// the current time instead if t is in the past, since a past floor would protect nothing.
func floor(t time.Time) (time.Time, error) {
	now := time.Now()
	switch {
	case t.IsZero():
		return now, nil
	case t.Year() < 2000:
		return t, fmt.Errorf("floor %s is before 2000: milliseconds or RFC 3339 are meant", protocol.Stamp(t))
	case t.After(now.Add(farFuture)):
		return t, fmt.Errorf("floor %s is more than a year ahead: no node ID could be used before; use the time until which IDs were made", protocol.Stamp(t))
	}
	return protocol.Latest(t, now), nil
}

// raiseFloor stores a floor in the pool's item before anything relies on the floor. A
// process that reads the item later creates no node ID that begins before the floor. One
// that has read the item before may still do so, unless all node IDs exist, as after a
// raise; see newFloor.
func (p *Pool) raiseFloor(ctx context.Context, c *Changes, to time.Time) error {
	w := protocol.RaiseFloor{Pool: p.Name, To: to}
	if _, needed := w.Apply(&c.Pool); !needed {
		return nil
	}
	res, err := p.writePool(ctx, w)
	if err == nil && res.Pool != nil {
		c.Pool = *res.Pool
	}
	return err
}

// newFloor is raiseFloor for a run that settles the pool afterwards. It first creates the
// missing node IDs, and records which others exist, so that the run recognizes those that
// another process, which has read the item before, creates at the same time.
func (p *Pool) newFloor(ctx context.Context, c *Changes, spec Spec) error {
	if _, needed := (protocol.RaiseFloor{Pool: p.Name, To: spec.kept}).Apply(&c.Pool); !needed {
		return nil
	}
	existed := map[int]bool{}
	item := c.Pool
	quiet := Open(p.store, p.Name) // this sweep is not reported as progress
	// Invariant (S1): no node ID is missing when the floor is stored. If this run is cut off after
	// that, the next one finds the floor stored, and cannot tell which node IDs others created since.
	err := quiet.sweep(ctx, maxGroups, &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		return s.seedGroup(ctx, c, item, n, g, spec.Floor, func(l protocol.Lease) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			existed[l.NodeID] = true
			return nil
		})
	})
	if err != nil {
		return err
	}
	c.existed = existed
	return p.raiseFloor(ctx, c, spec.kept)
}

// beginLater makes sure that a node ID that did not exist before this run stored the floor
// begins at the floor or later.
//
// Invariant (S1): a run that stores a floor succeeds only if no node ID that was created since
// begins before the floor. A process that adds node IDs to a narrow pool at the same moment may
// create some that were not missing before.
func (s *sweep) beginLater(ctx context.Context, c *Changes, item protocol.PoolItem, l protocol.Lease) error {
	switch {
	case c.existed == nil || c.existed[l.NodeID]:
		return nil
	case l.Version > 0 && l.NotBefore.Before(item.Floor):
		return fmt.Errorf("lease: node %d of pool %q was created and claimed while the floor %s was stored, and may have made IDs before it: raise the pool to that time", l.NodeID, s.Name, protocol.Stamp(item.Floor))
	}
	return s.begin(ctx, c, item, l)
}
