package leasepool

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// minValid is the shortest time for which a measurement counts.
const minValid, mostValid = 10 * time.Minute, 2 * time.Hour

// Measure stores the count of s, which was begun at a time, in the pool's item: leases
// grow while it shows that there is room. It counts for twice the time since the
// previous one, for 10 min to 2 h. The count of a holder says nothing about the
// schedule: after one it counts for 2 h. It is not stored if another one was stored
// meanwhile.
func (p *Pool) Measure(ctx context.Context, s Stats, at time.Time) error {
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

// CountOpen counts the node IDs of item that are held, and those that are cooling or were left
// by a dead holder, in the groups that leases can be in.
func CountOpen(ctx context.Context, store protocol.Store, item protocol.PoolItem, now time.Time) (held, cooling int, err error) {
	if err := protocol.CheckContext(ctx); err != nil {
		return 0, 0, err
	}
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
