package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// look reads groups until one has node IDs that c could claim, and picks one of them
// at random. It stops after as many pages as s allows.
func (a *Agent) look(ctx context.Context, c protocol.Claim, s *search) (outlook, error) {
	o := outlook{free: -1}
	s.begin()
	for n, ok := s.group(a.pool, c.At); ok; n, ok = s.group(a.pool, c.At) {
		g, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) { return a.cfg.Store.Group(ctx, a.cfg.Pool, n) })
		if err != nil {
			return o, err
		}
		for _, corrupt := range g.Corrupt {
			a.emit(Event{Kind: EventCorrupt, Lease: a.about(corrupt.NodeID), Err: corrupt})
		}
		one := outlook{}
		free := one.add(g, a.pool, c)
		o.merge(one)
		a.stale = a.stale || one.newer
		if len(free) == 0 {
			s.foundFull(n, one.next)
		}
		// The newest group is emptier than the rest, so its state is that of all.
		if _, last := a.pool.GroupsOpen(); n == last && one.crowded(a.pool.Narrow()) && last+1 < a.pool.Groups() {
			if err := a.openGroups(ctx, s, one.held == one.usable); err != nil {
				return o, err
			}
		}
		if len(free) > 0 {
			o.free = free[rand.IntN(len(free))]
			break
		}
	}
	first, last := a.pool.GroupsOpen()
	o.open = last + 1 - first
	return o, nil
}

// outlook is the result of a search of some of the open groups.
type outlook struct {
	free   int       // a node ID that could be claimed, -1 if there is none
	usable int       // node IDs that are not retired
	held   int       // of those, the ones that others hold and keep
	groups int       // that were read
	open   int       // that could have been read
	newer  bool      // a node ID is marked for a widening that the claimant does not know
	next   time.Time // when the next one could be claimed if nobody renews
}

// add takes a group into account and returns the node IDs that could be claimed.
func (o *outlook) add(g protocol.Group, p protocol.PoolItem, c protocol.Claim) (free []int) {
	for _, l := range g.Leases {
		if l.Retired || l.NodeID < p.ExcludeBelow || l.NodeID >= p.Limit() {
			continue
		}
		o.newer = o.newer || l.WidenTry > c.WidenTry
		o.usable++
		if _, ok := c.Apply(&l); ok {
			free = append(free, l.NodeID)
			continue
		}
		at := l.ReservedUntil.Add(-c.ClaimGuard)
		if l.Holder != "" {
			o.held++
			at = protocol.Latest(at, l.ExpiresAt.Add(c.ClaimGuard))
		}
		o.next = earliest(o.next, at)
	}
	return free
}

// merge adds the findings about one group.
func (o *outlook) merge(one outlook) {
	o.groups++
	o.usable += one.usable
	o.next = earliest(o.next, one.next)
}

// earliest returns the earlier of two times, ignoring a zero one.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// crowded reports whether a group is at least 75 % held: the next one is opened before
// it is needed. Cooling node IDs count as room, since those of the groups above would
// cool as long. So do node IDs of a narrow pool that are not seeded yet.
func (o outlook) crowded(narrow bool) bool {
	return 4*o.held >= 3*o.usable && (o.usable > 0 || !narrow)
}

// none returns the reason why a claimant whose clock says at found no node ID of p.
//
// The reservations of others prove nothing about this machine's clock: their leases may
// be longer, and a freed node ID stays reserved as far ahead as its holder or an
// operator's raise did. Only the store's own clock does, read when it answered, before
// at; a store without a clock counts as one far behind.
func (o outlook) none(p protocol.PoolItem, c Config, at time.Time) error {
	if p.ServerTime.Sub(at) > c.maxSkew() {
		return fmt.Errorf("%w: this machine's clock says %s, and the store's said %s before: repair the clock, or wait until then",
			ErrClockBehind, protocol.Stamp(at), protocol.Stamp(p.ServerTime))
	}
	return &ExhaustedError{Pool: p.Pool, Size: o.usable, unseen: o.open - o.groups, NextFree: o.next}
}
