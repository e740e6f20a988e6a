package leasepool

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Stats counts the numbers of a pool at a moment. Capacity is Held + Free +
// Expired + Cooling: what is reserved, retired, corrupt or not seeded cannot be
// leased and is not in it.
type Stats struct {
	Pool        protocol.PoolItem `json:"pool"`
	Capacity    int               `json:"capacity"`
	Held        int               `json:"held"`
	Free        int               `json:"free"`        // could be claimed now
	Expired     int               `json:"expired"`     // could be claimed now, though nobody gave them back
	Cooling     int               `json:"cooling"`     // nobody's, resting until what is reserved has passed
	Retired     int               `json:"retired"`     // out of use, held or not
	Utilization float64           `json:"utilization"` // percent of Capacity held; 100 where there is none
	Corrupt     Corrupt           `json:"corrupt,omitempty"`
}

// Stats counts the numbers of the pool. It reads the groups that leases can be in.
// The numbers of the groups above, which nobody ever held, count as free without
// being read: of a large pool that is used in part most is never read.
func (p *Pool) Stats(ctx context.Context) (s Stats, err error) {
	if s.Pool, err = p.item(ctx); err != nil {
		return s, err
	}
	now := time.Now()
	err = p.sweepOpen(ctx, s.Pool, &s.Corrupt, func(_ context.Context, w *sweep, _ int, g protocol.Group) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, l := range g.Leases {
			s.add(l, now)
		}
		return nil
	})
	_, open := s.Pool.Open()
	s.Free += s.Pool.Size - open
	s.Capacity = s.Held + s.Free + s.Expired + s.Cooling
	s.Utilization = 100
	if s.Capacity > 0 {
		s.Utilization = 100 * float64(s.Held) / float64(s.Capacity)
	}
	return s, err
}

// add counts one number.
func (s *Stats) add(l protocol.Lease, now time.Time) {
	state := l.State(now)
	if l.NodeID >= s.Pool.Size || l.NodeID < s.Pool.ReservedLow { // also before a resize has come to it
		state = protocol.Retired
	}
	switch state {
	case protocol.Held:
		s.Held++
	case protocol.Free:
		s.Free++
	case protocol.Expired:
		s.Expired++
	case protocol.Cooling:
		s.Cooling++
	case protocol.Retired:
		s.Retired++
	}
}
