package leasepool

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Seed makes the pool and its numbers where they do not exist. The pool's own
// item comes last: as long as it is missing, agents are told ErrPoolNotSeeded,
// and any of them may seed too, all at once. A pool of another size is left as it
// is, with an error: see [Pool.Resize].
func (p *Pool) Seed(ctx context.Context, s Spec) (c Changes, err error) {
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
	if err == nil {
		err = p.settle(ctx, &c, c.Pool.Groups(), s.Floor)
	}
	if err != nil || !fresh {
		return c, err
	}
	res, err := p.writePool(ctx, s.create(p.Name))
	if err != nil {
		return c, err
	}
	if res.Pool != nil {
		c.Pool = *res.Pool
	}
	return c, s.fits(c.Pool)
}

// settle makes the numbers of so many groups as the pool's size says: below it
// they exist and are in use, above it those that exist are retired.
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
				if _, err := s.do(ctx, protocol.Retire{Key: protocol.Key{Pool: p.Name, NodeID: l.NodeID}, Retired: retired}, count); err != nil {
					return err
				}
			}
			if retired && l.Holder != "" {
				s.mu.Lock()
				c.Finishing++
				s.mu.Unlock()
			}
		}
		low, high := max(n*protocol.GroupSize, item.ReservedLow), min((n+1)*protocol.GroupSize, item.Limit())
		// A number of a wider width is nobody's before that begins.
		return s.seed(ctx, c, low, high, g, protocol.Seed{Floor: protocol.Latest(floor, item.Changed()), Layout: item.Widening.Try})
	})
}

// seed makes the numbers from low to high-1 that are not in g, their group, in
// random order. Who is refused, since someone else seeds too, looks again instead
// of paying for all that the other has done: so a fleet shares the work.
func (s *sweep) seed(ctx context.Context, c *Changes, low, high int, g protocol.Group, w protocol.Seed) (err error) {
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
				w.Key = protocol.Key{Pool: s.Name, NodeID: node}
				if applied, err = s.do(ctx, w, &c.Seeded); err != nil {
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
