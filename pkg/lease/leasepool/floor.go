package leasepool

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// farFuture is how far ahead a floor may lie. Nobody can use a number before its
// floor, and nothing lowers it again: what is later than this is a slip.
const farFuture = 366 * 24 * time.Hour

// floor checks a time below which nothing may be stamped, and cuts off what is
// earlier than now: that would protect nothing.
func floor(t time.Time) (time.Time, error) {
	now := time.Now()
	switch {
	case t.IsZero():
		return now, nil
	case t.Year() < 2000:
		return t, fmt.Errorf("floor %s is before 2000: milliseconds or RFC 3339 are meant", protocol.Stamp(t))
	case t.After(now.Add(farFuture)):
		return t, fmt.Errorf("floor %s is more than a year ahead: no number could be used before; use the time until which IDs were made", protocol.Stamp(t))
	}
	return protocol.Latest(t, now), nil
}
