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
// raise.
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
