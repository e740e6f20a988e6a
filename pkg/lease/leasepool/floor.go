package leasepool

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// farFuture is how far ahead a floor may be. A node ID cannot be used before its
// floor, and a floor cannot be lowered: a later time is treated as a mistake.
const farFuture = 366 * 24 * time.Hour

// floor checks a time before which nothing may be stamped. It raises a time in the
// past to now, since a past floor would protect nothing.
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

// raiseFloor keeps a floor in the pool's item before anything relies on it: no node
// ID that is created later, by any process, begins before it.
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
