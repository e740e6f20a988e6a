package tenure

import (
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Capped reports whether an open widening keeps an agent that knows p from reserving
// as much as it needs at now.
func (t Timings) Capped(p protocol.PoolItem, now time.Time) bool {
	until := now.Add(t.Reserve)
	return !p.Capped(until).Equal(until)
}

// Stuck reports whether the holder has asked for more than an open try of p allows: it
// did not know of the try, and cannot send a renewal until that is settled.
func (t *Term) Stuck(p protocol.PoolItem) bool { return !p.Capped(t.askedUntil).Equal(t.askedUntil) }

// AtRisk reports whether a holder that waits for others must act at now to keep its
// lease: a third of a short one is left, or less.
func (t *Term) AtRisk(now time.Duration) bool { return t.Deadline-now <= t.ttl/3 }

// Learn passes the widths that p has beyond known on to the generators, before
// anything that needs them is reserved. It returns how many it passed on; an error
// means that the lease contradicts the pool's history.
func Learn(t *snowflake.Timeline, known, p protocol.PoolItem) (widened int, err error) {
	for _, era := range p.Eras[min(len(known.Eras), len(p.Eras)):] {
		if err := t.Widen(era); err != nil {
			return widened, err
		}
		widened++
	}
	return widened, nil
}
