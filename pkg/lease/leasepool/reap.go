package leasepool

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// ReapReport says what a look at the pool found, and what was freed.
type ReapReport struct {
	Pool  string `json:"pool"`
	Held  int    `json:"held"`  // numbers with a holder, expired or not
	Due   []int  `json:"due"`   // expired for more than a minute
	Freed []int  `json:"freed"` // of those
	// Braked tells that too many were due at once to be believed: Reap waited for
	// a lease's length and freed only what had not changed; or, where its context
	// left too little time for that, freed nothing.
	Braked bool `json:"braked"`
	// Stuck numbers are reserved or held for hours beyond their lease's length:
	// their holder's clock was ahead, or it asked for a long Reserve.
	Stuck   []int   `json:"stuck,omitempty"`
	Corrupt Corrupt `json:"corrupt,omitempty"`
}

const (
	// reapAfter is how long a lease has been expired when it is reaped. Claimants
	// take it earlier, so reaping is in no hurry.
	reapAfter = time.Minute
	// stuckAfter is how far beyond its lease's length a number is stuck.
	stuckAfter = time.Hour
)

// brake is how many of the held leases are freed in one run without a second
// thought. When more are due, the store may just have been away, or this
// machine's clock be wrong, and the fleet be about to renew.
func brake(held int) int { return max(8, held/5) }

// Due tells what [Pool.Reap] would free, and frees nothing.
func (p *Pool) Due(ctx context.Context) (ReapReport, error) {
	d, err := p.due(ctx)
	return d.ReapReport, err
}

// Reap frees the numbers whose lease has been expired for more than a minute, so
// that the table says who is there. Nothing else depends on it: claimants take
// expired leases themselves. What is reserved stays reserved.
func (p *Pool) Reap(ctx context.Context) (ReapReport, error) {
	d, err := p.due(ctx)
	r := d.ReapReport
	if err != nil || len(r.Due) == 0 {
		return r, err
	}
	if r.Braked = len(r.Due) > brake(r.Held); r.Braked && !p.secondThought(ctx, d) {
		return r, nil
	}
	freed := 0
	err = p.sweepOpen(ctx, d.item, &r.Corrupt, func(ctx context.Context, s *sweep, _ int, g protocol.Group) error {
		for _, l := range g.Leases {
			// Pinned on the first look: a holder that has renewed since is alive,
			// whatever its expiry and this machine's clock say.
			w, ok := d.writes[l.NodeID]
			if _, unchanged := w.Apply(&l); !ok || !unchanged {
				continue
			}
			applied, err := s.do(ctx, w, &freed)
			if err != nil {
				return err
			}
			if applied {
				s.mu.Lock()
				r.Freed = append(r.Freed, l.NodeID)
				s.mu.Unlock()
			}
		}
		return nil
	})
	slices.Sort(r.Freed)
	return r, err
}

// dues is what a look found due, and how to free it.
type dues struct {
	ReapReport
	item    protocol.PoolItem
	longest time.Duration // lease among them
	writes  map[int]protocol.Reap
}

// due looks at every number that can be held.
func (p *Pool) due(ctx context.Context) (dues, error) {
	d := dues{ReapReport: ReapReport{Pool: p.Name, Due: []int{}, Freed: []int{}}, writes: map[int]protocol.Reap{}}
	item, err := p.itemInTime(ctx)
	if err != nil {
		return d, err
	}
	d.item = item
	now := time.Now()
	err = p.sweepOpen(ctx, item, &d.Corrupt, func(_ context.Context, s *sweep, _ int, g protocol.Group) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range g.Leases {
			if protocol.Latest(l.ExpiresAt, l.ReservedUntil).After(now.Add(l.TTL + stuckAfter)) {
				d.Stuck = append(d.Stuck, l.NodeID)
			}
			if l.Holder == "" {
				continue
			}
			d.Held++
			if l.ExpiresAt.Add(reapAfter).Before(now) {
				d.Due = append(d.Due, l.NodeID)
				d.longest = max(d.longest, l.TTL)
				d.writes[l.NodeID] = protocol.Reap{Key: protocol.Key{Pool: p.Name, NodeID: l.NodeID}, Holder: l.Holder, Version: l.Version, Renewal: l.Renewal}
			}
		}
		return nil
	})
	slices.Sort(d.Due)
	slices.Sort(d.Stuck)
	return d, err
}

// secondThought waits, on the monotonic clock, for as long as the longest of the
// leases lasts: who lives renews in that time. False: there is no time for it.
func (p *Pool) secondThought(ctx context.Context, d dues) bool {
	log := p.Logger
	if log == nil {
		log = slog.Default()
	}
	end, bounded := ctx.Deadline()
	enough := !bounded || time.Until(end) > d.longest
	log.Warn("reap: so many leases expired at once that their holders may be about to come back: waiting for a lease's length before freeing any",
		"pool", p.Name, "due", len(d.Due), "held", d.Held, "at_once", brake(d.Held), "wait", d.longest, "enough_time", enough)
	if enough {
		_ = protocol.Pause(ctx, d.longest) // what comes next sees that ctx has ended
	}
	return enough
}
