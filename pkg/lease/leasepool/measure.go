package leasepool

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// minValid and mostValid are the shortest and the longest time for which a measurement is
// valid.
const minValid, mostValid = 10 * time.Minute, 2 * time.Hour

// Measure stores the counts of s in the pool's item; at is the time at which the count
// began. Leases grow while a valid measurement shows that the pool has room. A
// measurement is valid for twice the time since the previous one, but for at least 10 min
// and at most 2 h. If the previous measurement was made by a holder, which does not
// measure on a schedule, the new one is valid for 2 h. Measure stores nothing if another
// measurement was stored after s was read.
func (p *Pool) Measure(ctx context.Context, s Stats, at time.Time) error {
	if err := p.absent(); err != nil {
		return err
	}
	m := protocol.Measured{Held: s.Held, Cooling: s.Cooling + s.Expired, At: at, Valid: minValid}
	if before := s.Pool.Measured; before != nil {
		m.Valid = min(max(minValid, 2*at.Sub(before.At)), mostValid).Truncate(time.Second)
		if tenure.ByHolder(before) {
			m.Valid = mostValid
		}
	}
	_, err := p.writePool(ctx, protocol.Measure{Pool: p.Name, Seen: s.Pool.Measured, Measured: m})
	return err
}

// countOpen is [siblings.CountOpen].
func countOpen(ctx context.Context, store protocol.Store, item protocol.PoolItem, now time.Time) (held, cooling int, err error) {
	p := Open(store, item.Pool)
	s := Stats{Pool: item}
	err = p.sweepOpen(ctx, item, &s.Corrupt, func(_ context.Context, w *sweep, _ int, g protocol.Group) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, l := range g.Leases {
			s.add(l, now)
		}
		return nil
	})
	return s.Held, s.Cooling + s.Expired, err
}
