package leasepool

import (
	"context"
	"errors"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Stats contains the numbers of node IDs of a pool at one time. Capacity is Held + Free +
// Expired + Cooling; it does not include node IDs that are excluded, retired, corrupt or
// not seeded, since these cannot be leased. In a narrow pool, node IDs beyond the present
// width are not seeded yet.
type Stats struct {
	Pool        protocol.PoolItem `json:"pool"`
	Capacity    int               `json:"capacity"`
	Held        int               `json:"held"`
	OnDemand    int               `json:"on_demand,omitempty"` // node IDs in Held whose holders renew only when they use them
	Free        int               `json:"free"`                // could be claimed now
	Expired     int               `json:"expired"`             // could be claimed now, although they were not released
	Cooling     int               `json:"cooling"`             // not held, or held by a dead process, and unusable until the reserved time has passed
	Retired     int               `json:"retired"`             // out of use, held or not
	Utilization float64           `json:"utilization"`         // percentage of Capacity that is held; 100 if Capacity is 0
	// Outage describes how an outage of DynamoDB that begins now would affect the holders.
	Outage Outage `json:"outage"`
	// Stuck is how many node IDs are reserved or held for hours beyond their lease's
	// length.
	Stuck int `json:"stuck,omitempty"`
	// Braked reports that the reaper frees no leases, because implausibly many were
	// due at once.
	Braked  bool    `json:"braked,omitempty"`
	Corrupt Corrupt `json:"corrupt,omitempty"`
	// Forged items have changes that no write of this module makes: see [ReapReport].
	Forged Corrupt `json:"forged,omitempty"`
	// Releases lists the releases of this module that the holders run, oldest first.
	Releases []Release `json:"releases,omitempty"`

	alive []string // the releases that holders report
}

// Stats counts the node IDs of the pool. It reads the groups that can have leases,
// including those above the size of a pool that was made smaller. The node IDs of all
// other groups were never held, and are counted as free without being read. So most
// groups of a large pool that is only partly used are not read.
func (p *Pool) Stats(ctx context.Context) (s Stats, err error) {
	if err := p.absent(); err != nil {
		return s, err
	}
	if s.Pool, err = p.item(ctx); err != nil {
		return s, err
	}
	now := time.Now()
	audit, err := p.audit(ctx, s.Pool)
	if err != nil {
		return s, err
	}
	err = p.sweepOpen(ctx, s.Pool, &s.Corrupt, func(_ context.Context, w *sweep, n int, g protocol.Group) error {
		audit.see(n, g)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, l := range g.Leases {
			s.add(l, now)
		}
		return nil
	})
	if err == nil {
		s.Forged, err = audit.found(ctx)
	}
	if err == nil {
		err = p.countRetired(ctx, &s)
	}
	if err == nil {
		err = p.countBraked(ctx, &s)
	}
	s.Releases, s.alive = CountReleases(s.alive), nil
	// Invariant: Free counts only node IDs that can be claimed now, so that a pool in which no
	// process can start is full. In a narrow pool, the other node IDs exist after a widening.
	_, open := s.Pool.Open()
	s.Free += s.Pool.Limit() - open
	s.Capacity = s.Held + s.Free + s.Expired + s.Cooling
	s.Utilization = 100
	if s.Capacity > 0 {
		s.Utilization = 100 * float64(s.Held) / float64(s.Capacity)
	}
	return s, err
}

// countRetired counts the retired node IDs of a pool that was made smaller, in the groups
// above those that can have leases.
func (p *Pool) countRetired(ctx context.Context, s *Stats) error {
	for n := max(s.Pool.Size/protocol.GroupSize, openGroups(s.Pool)); n < maxGroups && !s.Pool.ResizedAt.IsZero(); n++ {
		g, err := p.glance(ctx, n)
		if err != nil || empty(g) {
			return err
		}
		for _, c := range g.Corrupt {
			s.Corrupt.note(c)
		}
		for _, l := range g.Leases {
			if l.NodeID >= s.Pool.Size {
				s.Retired++
			}
		}
	}
	return nil
}

// countBraked reads from the reaper's memory whether the reaper is braked. If the read
// fails, the other values of s stay valid.
func (p *Pool) countBraked(ctx context.Context, s *Stats) error {
	m, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.ReaperMemory, error) { return p.table().ReaperMemory(ctx, p.Name) })
	s.Braked = m.Look != nil && m.Look.Braked
	var corrupt *protocol.CorruptError
	if errors.As(err, &corrupt) {
		return nil
	}
	return err
}

// add counts one node ID.
func (s *Stats) add(l protocol.Lease, now time.Time) {
	if stuck(l, now) {
		s.Stuck++
	}
	s.Outage.withstands(l, now)
	state := l.State(now)
	if l.Holder != "" && !l.ExpiresAt.Before(now) { // a retired node ID may have a holder
		s.alive = append(s.alive, l.Metadata[releaseKey])
	}
	if l.NodeID >= s.Pool.Size || l.NodeID < s.Pool.ExcludeBelow { // even if a running resize has not retired it yet
		state = protocol.Retired
	}
	switch state {
	case protocol.Held:
		s.Held++
		if l.OnDemand {
			s.OnDemand++
		}
	case protocol.Free:
		s.Free++
	case protocol.Expired:
		// A lease that had grown may leave behind hours of reserved time. Until that time has
		// passed, its node ID is cooling, as it is after a forced release. Neither the reaper
		// nor claimants are expected to take it earlier.
		if l.ReservedUntil.After(now) {
			s.Cooling++
		} else {
			s.Expired++
		}
	case protocol.Cooling:
		s.Cooling++
	case protocol.Retired:
		s.Retired++
	}
}
