package leasepool

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Resize changes the number of node IDs of the pool. To enlarge a pool, Resize creates
// the missing node IDs before it writes the new size to the pool's item, and brings
// retired node IDs back into use afterwards. To shrink a pool, it retires the highest
// node IDs after writing the new size. The holders of retired node IDs may finish
// (Changes.Finishing), and nothing is ever deleted. Resize returns an error if the pool's
// layout has too few node bits for the size. ExcludeBelow and Narrow must be those of the
// pool, which never change; if s has no Floor, Expect or Layout, the pool keeps its own.
func (p *Pool) Resize(ctx context.Context, s Spec) (c Changes, err error) {
	if err := p.absent(); err != nil {
		return c, err
	}
	if s, err = s.check(p.Name); err != nil {
		return c, err
	}
	if c.Pool, err = p.itemInTime(ctx); err != nil {
		return c, err
	}
	from := c.Pool.Size
	// Invariant: no node ID is retired that the caller has not seen in use. Someone else may have
	// resized the pool since the caller read it.
	if s.From != 0 && s.From != from {
		return c, fmt.Errorf("lease: pool %q was resized to %d meanwhile, and nothing was done: run it again if %d is right", p.Name, from, s.Size)
	}
	if s.ExcludeBelow != c.Pool.ExcludeBelow || s.Narrow != c.Pool.Narrow() {
		return c, fmt.Errorf("lease: pool %q has the lowest %d node IDs reserved and a width that follows its groups (Narrow): %v; a resize asked for %d and %v: these cannot be changed: ask for the same, or name another pool",
			p.Name, c.Pool.ExcludeBelow, c.Pool.Narrow(), s.ExcludeBelow, s.Narrow)
	}
	if s.otherLayout(c.Pool) {
		return c, s.fits(c.Pool)
	}
	// A pool without a layout gets the requested layout before it grows, so that no agent
	// can bind a smaller layout in between.
	if err := p.bindLayout(ctx, &c, s.Layout); err != nil {
		return c, err
	}
	if err := fitsLayout(c.Pool, s.Size); err != nil {
		return c, err
	}
	if err := p.newFloor(ctx, &c, s); err != nil {
		return c, err
	}
	if c.Pool.Narrow() { // an unfinished change of the width is finished first
		existed := c.existed
		c, err = p.widen(ctx, true)
		if c.existed = existed; err == nil && s.Size > from {
			err = p.grow(ctx, &c, s.Size)
		}
		if err != nil {
			return c, err
		}
	}
	if err := p.setSize(ctx, &c, s.Size, from, s.Floor); err != nil {
		return c, err
	}
	// These include the node IDs that this run has created. Another run, which knew the earlier
	// size, may have seen them and may have sent a request to retire them.
	moved := func(node int) bool { return node >= min(from, s.Size) && node < max(from, s.Size) }
	if c.Pool, err = p.item(ctx); err != nil {
		return c, err
	}
	if err := p.settle(ctx, &c, maxGroups, s.Floor, moved); err != nil {
		return c, err
	}
	if c.Pool.Size != s.Size {
		return c, fmt.Errorf("lease: pool %q was resized to %d by someone else at the same time: run it again if %d is right", p.Name, c.Pool.Size, s.Size)
	}
	if err := p.makeRoom(ctx, &c, s.Expect); err != nil {
		return c, err
	}
	p.tryPublish(ctx, c.Pool)
	return c, nil
}

// setSize creates the missing node IDs of a larger pool and writes the size, unless
// another process has resized the pool since it was read. After other changes, such as a
// group opened by an agent, it tries again.
func (p *Pool) setSize(ctx context.Context, c *Changes, size, from int, floor time.Time) error {
	var created *time.Time // the pool's floor when the node IDs were created
	for c.Pool.Size == from && size != from {
		if err := fitsLayout(c.Pool, size); err != nil {
			return err
		}
		// Invariant (S1): the size is written only if the pool's floor is still the one from
		// which the added node IDs begin. Otherwise a raise has not seen all of them.
		if size > from && (created == nil || !created.Equal(c.Pool.Floor)) {
			known := c.Pool.Floor
			if err := p.create(ctx, c, size, floor); err != nil {
				return err
			}
			created = &known
		}
		item, err := p.change(ctx, protocol.ResizePool{Pool: p.Name, Revision: c.Pool.Revision, To: size, At: time.Now()})
		if err != nil {
			return err
		}
		c.Pool = item
	}
	return nil
}
