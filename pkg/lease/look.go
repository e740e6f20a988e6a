package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// look reads groups until one has a number that could be claimed with the terms
// of c, and takes a random one. It gives up after so many pages as s allows.
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

// outlook is what a look at some of the open groups showed.
type outlook struct {
	free   int       // a number that could be claimed, -1 if there is none
	usable int       // numbers that are not retired
	held   int       // of those, by others who keep them
	groups int       // that were looked at
	open   int       // that there were to look at
	newer  bool      // a number is marked for a widening that the claimant does not know
	next   time.Time // when the next one could be claimed if nobody renews
	// The smallest reserved_until of all: when even that is far ahead, it is this
	// machine's clock that is behind.
	reserved time.Time
}

// add takes a group into account and gives the numbers that could be claimed.
func (o *outlook) add(g protocol.Group, p protocol.PoolItem, c protocol.Claim) (free []int) {
	for _, l := range g.Leases {
		if l.Retired || l.NodeID < p.ReservedLow || l.NodeID >= p.Limit() {
			continue
		}
		o.newer = o.newer || l.Layout > c.Layout
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
		o.next, o.reserved = earliest(o.next, at), earliest(o.reserved, l.ReservedUntil)
	}
	return free
}

// merge adds what was seen of one group.
func (o *outlook) merge(one outlook) {
	o.groups++
	o.usable += one.usable
	o.next, o.reserved = earliest(o.next, one.next), earliest(o.reserved, one.reserved)
}

// earliest is the earlier of two times, of which a zero one counts for nothing.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// crowded tells of a group that it is nearly full: the next one is opened before it
// is needed. A number that rests is room: those of the groups above would rest as
// long. So is one of a narrow pool that is not seeded yet.
func (o outlook) crowded(narrow bool) bool {
	return 4*o.held >= 3*o.usable && (o.usable > 0 || !narrow)
}

// none says why no number was found by a claimant whose clock says at.
func (o outlook) none(pool string, c Config, at time.Time) error {
	// No holder reserves further ahead than this.
	most := max(c.Wait, c.Reserve) + c.ClaimGuard
	if o.usable > 0 && o.reserved.After(at.Add(most)) {
		return fmt.Errorf("%w: this machine's clock says %s, but every number of pool %q is reserved until %s or later: repair the clock, or wait until then",
			ErrClockBehind, protocol.Stamp(at), pool, protocol.Stamp(o.reserved))
	}
	return &ExhaustedError{Pool: pool, Size: o.usable, unseen: o.open - o.groups, NextFree: o.next}
}
