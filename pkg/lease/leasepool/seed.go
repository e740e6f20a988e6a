package leasepool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Seed creates the pool and its node IDs if they do not exist. It creates the pool's own
// item last: while that item is missing, agents get ErrPoolNotSeeded, and any number of
// them may seed at once. If the pool exists with a different size, Seed returns an error
// and does not change the pool; see [Pool.Resize]. In an existing pool, Seed opens the
// groups for Spec.Expect if Expect is higher than before.
func (p *Pool) Seed(ctx context.Context, s Spec) (c Changes, err error) {
	if err := p.absent(); err != nil {
		return c, err
	}
	if s, err = s.check(p.Name); err != nil {
		return c, err
	}
	c.Pool, err = p.itemInTime(ctx)
	fresh := errors.Is(err, protocol.ErrPoolNotSeeded)
	if fresh {
		c.Pool, _ = s.create(p.Name).Apply(nil)
		err = nil
	}
	if err == nil {
		err = s.fits(c.Pool)
	}
	if err == nil && !fresh {
		err = errors.Join(p.newFloor(ctx, &c, s), p.bindLayout(ctx, &c, s.Layout))
	}
	left := false // by an earlier seed of a larger pool, which was cut off
	if err == nil && fresh {
		left, err = p.found(ctx, &c, s.Floor)
	} else if err == nil {
		err = p.settle(ctx, &c, c.Pool.Groups(), s.Floor, nil)
		if err == nil {
			err = s.fits(c.Pool)
		}
	}
	if err != nil {
		return c, err
	}
	if err := p.recordIfPermitted(ctx); err != nil {
		return c, err
	}
	if !fresh {
		if err := p.makeRoom(ctx, &c, s.Expect); err != nil {
			return c, err
		}
		p.tryPublish(ctx, c.Pool)
		return c, nil
	}
	res, err := p.writePool(ctx, s.create(p.Name))
	if err != nil {
		return c, err
	}
	if res.Pool != nil {
		c.Pool = *res.Pool
	}
	if err := s.fits(c.Pool); err != nil {
		return c, err
	}
	// Another process may have seeded the pool first, with a different floor, without a
	// layout, or for fewer holders.
	err = errors.Join(p.raiseFloor(ctx, &c, s.kept), p.bindLayout(ctx, &c, s.Layout), p.makeRoom(ctx, &c, s.Expect))
	if err == nil && left {
		err = p.settle(ctx, &c, c.Pool.Groups(), s.Floor, nil)
	}
	if err == nil && res.Applied { // of several concurrent seeds, only one writes the cards
		err = p.publishNew(ctx, &c)
	}
	return c, err
}

// found creates the node IDs of a pool that does not exist yet. It reports whether there
// are node IDs that are retired, or too high for the pool's size. They are left alone
// until the pool's item exists: a concurrent seed may create the pool with another size.
func (p *Pool) found(ctx context.Context, c *Changes, floor time.Time) (left bool, err error) {
	item := c.Pool
	err = p.sweep(ctx, item.Groups(), &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		return s.seedGroup(ctx, c, item, n, g, floor, func(l protocol.Lease) error {
			if l.NodeID >= item.Size || l.Retired {
				s.mu.Lock()
				left = true
				s.mu.Unlock()
			}
			return s.begin(ctx, c, item, l)
		})
	})
	return left, err
}

// create creates the missing node IDs of a larger pool before agents search them.
func (p *Pool) create(ctx context.Context, c *Changes, size int, floor time.Time) error {
	item := c.Pool
	item.Size = size
	return p.sweep(ctx, item.Groups(), &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		return s.seedGroup(ctx, c, item, n, g, floor, func(l protocol.Lease) error {
			if l.NodeID < c.Pool.Size {
				return nil
			}
			return s.begin(ctx, c, item, l)
		})
	})
}

// begin makes sure that a node ID that is about to be added to a pool begins at the
// pool's floor or later.
//
// Invariant (S1): no node ID that is added begins before the floor. Another run, which was
// cut off or knew an earlier floor, may have created the node ID.
func (s *sweep) begin(ctx context.Context, c *Changes, item protocol.PoolItem, l protocol.Lease) error {
	if l.Holder != "" || !l.ReservedUntil.Before(item.Floor) {
		return nil
	}
	_, err := s.do(ctx, protocol.Raise{Key: protocol.Key{Pool: s.Name, NodeID: l.NodeID}, To: item.Floor}, &c.Raised)
	return err
}

// settle brings the node IDs of the first groups in line with the pool's size.
// Afterwards, all node IDs below the size exist and are in use, and all higher node IDs
// that exist are retired.
//
// Another process may resize the pool at the same time. So settle starts again until the
// size has stayed the same: the process that finishes last makes the node IDs match the
// pool's item.
func (p *Pool) settle(ctx context.Context, c *Changes, groups int, floor time.Time, moved func(node int) bool) error {
	for {
		c.Finishing = 0
		refused, err := p.settleOnce(ctx, c, groups, floor, moved)
		if err != nil {
			return err
		}
		now, err := p.item(ctx)
		if err != nil {
			return err
		}
		switch {
		case now.Size != c.Pool.Size:
			c.Pool, groups = now, maxGroups
		case refused > 0 && now.Revision > c.Pool.Revision: // by a change that this run has not seen
			c.Pool = now
		case refused > 0:
			return fmt.Errorf("lease: pool %q: %d node IDs are still as an item of the pool wanted them that no longer exists: raise the pool, which takes its revision above that one's, and then resize it to %d", p.Name, refused, now.Size)
		default:
			return nil
		}
	}
}

// settleOnce does what settle does, for the size in c.Pool. Each change records the
// revision of the pool's item from which the size was read. It returns the number of
// changes that were refused.
//
// Invariant: a request of an earlier resize that arrives late changes nothing. So
// settleOnce also writes those node IDs that need no change but that an earlier resize may
// still change. moved reports which those are; nil: none.
func (p *Pool) settleOnce(ctx context.Context, c *Changes, groups int, floor time.Time, moved func(node int) bool) (refused int, err error) {
	item := c.Pool
	err = p.sweep(ctx, groups, &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		for _, l := range g.Leases {
			retired := l.NodeID >= item.Size
			if l.Retired != retired || moved != nil && moved(l.NodeID) && l.Resize < item.Revision {
				count := new(int)
				switch {
				case l.Retired == retired:
				case retired:
					count = &c.Retired
				default:
					count = &c.Restored
				}
				res, err := s.send(ctx, protocol.Retire{Key: protocol.Key{Pool: p.Name, NodeID: l.NodeID}, Retired: retired, Resize: item.Revision}, count)
				if err != nil {
					return err
				}
				if res.Lease != nil && res.Lease.Retired != retired {
					s.mu.Lock()
					refused++
					s.mu.Unlock()
				}
			}
			if retired && l.Holder != "" {
				s.mu.Lock()
				c.Finishing++
				s.mu.Unlock()
			}
		}
		return s.seedGroup(ctx, c, item, n, g, floor, func(l protocol.Lease) error { return s.beginLater(ctx, c, item, l) })
	})
	return refused, err
}

// seedGroup creates, in random order, the missing node IDs of one group, and calls each for
// all others. No node ID can be used before the pool's floor. A node
// ID that needs a larger width cannot be used before that width begins, either.
//
// If a write is refused, another process is seeding as well. In that case, seedGroup reads
// the group again, so that it does not pay for writes that the other process has done, and
// a fleet shares the work.
func (s *sweep) seedGroup(ctx context.Context, c *Changes, item protocol.PoolItem, n int, g protocol.Group, floor time.Time, each func(protocol.Lease) error) (err error) {
	low, high := max(n*protocol.GroupSize, item.ExcludeBelow), min((n+1)*protocol.GroupSize, item.Limit())
	there := map[int]bool{}
	for {
		for _, l := range g.Leases {
			there[l.NodeID] = true
			if err := each(l); err != nil {
				return err
			}
		}
		// Invariant (S1): a foreign item is not the item of a node ID. Otherwise the node ID would be
		// missing after a raise, and could begin before the floor when somebody creates it.
		for _, corrupt := range g.Corrupt {
			if !errors.Is(corrupt, protocol.ErrForeignKey) {
				there[corrupt.NodeID] = true
			}
		}
		applied := true
		for _, i := range rand.Perm(max(high-low, 0)) {
			if node := low + i; !there[node] && applied {
				there[node] = true
				if applied, err = s.do(ctx, protocol.SeedOf(item, node, floor), &c.Seeded); err != nil {
					return err
				}
			}
		}
		if applied {
			return nil
		}
		if g, err = s.group(ctx, n); err != nil {
			return err
		}
	}
}
