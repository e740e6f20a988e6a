package leasepool

import (
	"context"
	"errors"
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
		err = errors.Join(p.raiseFloor(ctx, &c, s.kept), p.bindLayout(ctx, &c, s.Layout))
	}
	if err == nil {
		err = p.settle(ctx, &c, c.Pool.Groups(), s.Floor)
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
	if err == nil && res.Applied { // of several concurrent seeds, only one writes the cards
		p.tryPublish(ctx, c.Pool)
	}
	return c, err
}

// create creates the missing node IDs of a larger pool before agents search them.
func (p *Pool) create(ctx context.Context, c *Changes, size int, floor time.Time) error {
	item := c.Pool
	item.Size = size
	return p.sweep(ctx, item.Groups(), &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		return s.seedGroup(ctx, c, item, n, g, floor)
	})
}

// settle brings the node IDs of the first groups in line with the pool's size.
// Afterwards, all node IDs below the size exist and are in use, and all higher node IDs
// that exist are retired. Each change records the revision of the pool's item from which
// settle read the size.
func (p *Pool) settle(ctx context.Context, c *Changes, groups int, floor time.Time) error {
	item := c.Pool
	return p.sweep(ctx, groups, &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		for _, l := range g.Leases {
			retired := l.NodeID >= item.Size
			if l.Retired != retired {
				count := &c.Restored
				if retired {
					count = &c.Retired
				}
				if _, err := s.do(ctx, protocol.Retire{Key: protocol.Key{Pool: p.Name, NodeID: l.NodeID}, Retired: retired, Resize: item.Revision}, count); err != nil {
					return err
				}
			}
			if retired && l.Holder != "" {
				s.mu.Lock()
				c.Finishing++
				s.mu.Unlock()
			}
		}
		return s.seedGroup(ctx, c, item, n, g, floor)
	})
}

// seedGroup creates the missing node IDs of one group. No node ID can be used before the
// pool's floor. A node ID that needs a larger width cannot be used before that width
// begins, either.
func (s *sweep) seedGroup(ctx context.Context, c *Changes, item protocol.PoolItem, n int, g protocol.Group, floor time.Time) error {
	low, high := max(n*protocol.GroupSize, item.ExcludeBelow), min((n+1)*protocol.GroupSize, item.Limit())
	return s.seed(ctx, c, low, high, g, func(node int) protocol.Write { return item.SeedOf(node, floor) })
}

// seed creates, in random order, the node IDs from low to high-1 that are missing in
// their group g. If a write is refused, another process is seeding as well. In that case,
// seed reads the group again, so that it does not pay for writes that the other process
// has done, and a fleet shares the work.
func (s *sweep) seed(ctx context.Context, c *Changes, low, high int, g protocol.Group, w func(node int) protocol.Write) (err error) {
	there := map[int]bool{}
	for {
		for _, l := range g.Leases {
			there[l.NodeID] = true
		}
		for _, corrupt := range g.Corrupt {
			there[corrupt.NodeID] = true
		}
		applied := true
		for _, i := range rand.Perm(max(high-low, 0)) {
			if node := low + i; !there[node] && applied {
				there[node] = true
				if applied, err = s.do(ctx, w(node), &c.Seeded); err != nil {
					return err
				}
			}
		}
		if applied {
			return nil
		}
		if g, err = s.group(ctx, low/protocol.GroupSize); err != nil {
			return err
		}
	}
}
