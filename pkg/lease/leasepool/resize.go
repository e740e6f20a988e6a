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
		_, err := p.writePool(ctx, w)
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
