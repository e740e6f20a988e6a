package tenure

import (
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Capped reports whether an open widening keeps an agent that has read p from reserving as
// much as it needs at now.
func (t Timings) Capped(p protocol.PoolItem, now time.Time) bool {
	until := now.Add(t.Reserve)
	return !protocol.Capped(p, until).Equal(until)
}

// Stuck reports whether the holder has requested a reservation that ends later than the
// open try of p allows, because it had not seen the try when it sent the request. It
// cannot send a renewal until the try is settled.
func (t *Term) Stuck(p protocol.PoolItem) bool {
	return !protocol.Capped(p, t.askedUntil).Equal(t.askedUntil)
}

// AtRisk reports whether a holder that waits for others must act at now to keep its lease:
// that is so when at most a third of TTL is left.
func (t *Term) AtRisk(now time.Duration) bool { return t.Deadline-now <= t.ttl/3 }

// Learn passes on to the generators the widths that p has and known does not have, before
// any reservation that needs these widths. It returns how many widths it passed on; an
// error means that the lease contradicts the pool's history.
func Learn(t *snowflake.Timeline, known, p protocol.PoolItem) (widened int, err error) {
	for _, era := range p.Eras[min(len(known.Eras), len(p.Eras)):] {
		if err := t.Widen(era); err != nil {
			return widened, err
		}
		widened++
	}
	return widened, nil
}
