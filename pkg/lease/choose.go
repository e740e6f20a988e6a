package lease

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Choosing a number. A herd of N tasks on M numbers is the hard case: a fleet
// that starts at once. The first guess is blind, a hash of the session inside
// the open groups; who finds it taken looks at a group with one strong Query
// and takes a random free number. Simulated with 1,024 tasks on 1,024 numbers
// that costs 1.5 writes and 0.5 queries a task; the first free number, which is
// what others take, costs 11 to 500 writes. Which groups are looked at, and how
// many at most, is in search.go: nothing reads the whole of a large pool.

// guess is the number that a session tries first.
func guess(session string, p protocol.PoolItem) int {
	low, high := p.Open()
	h := fnv.New64a()
	h.Write([]byte(session))
	return low + int(h.Sum64()%uint64(high-low))
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
			a.emit(Event{Kind: EventCorrupt, Lease: Lease{Pool: a.cfg.Pool, NodeID: corrupt.NodeID}, Err: corrupt})
		}
		one := outlook{}
		free := one.add(g, a.pool, c)
		o.merge(one)
		a.stale = a.stale || one.newer
		if len(free) == 0 {
			s.foundFull(n, one.next)
		}
		// Nearly full: the next group is opened before it is needed. The newest is
		// emptier than the rest, so its state is that of all. A number that rests is
		// room: those of the groups above would rest as long. So is one of a narrow
		// pool that is not seeded yet.
		crowded := 4*one.held >= 3*one.usable && (one.usable > 0 || !a.pool.Narrow())
		if _, last := a.pool.GroupsOpen(); n == last && crowded && last+1 < a.pool.Groups() {
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

// merge adds what was seen of one group.
func (o *outlook) merge(one outlook) {
	earliest := func(a, b time.Time) time.Time {
		if a.IsZero() || !b.IsZero() && b.Before(a) {
			return b
		}
		return a
	}
	o.groups++
	o.usable += one.usable
	o.next, o.reserved = earliest(o.next, one.next), earliest(o.reserved, one.reserved)
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
		if o.next.IsZero() || at.Before(o.next) {
			o.next = at
		}
		if o.reserved.IsZero() || l.ReservedUntil.Before(o.reserved) {
			o.reserved = l.ReservedUntil
		}
	}
	return free
}

// openGroups opens the next group, unless someone else just did. A claimant that
// comes here again is one of a herd, and opens twice as many each time: so a
// fleet of any size has room after a few rounds, and a single task opens one.
//
// In a narrow pool the width follows what is open, in the background, since there
// is head-room. Where there is none left, the claimant does that first if it finds
// no number at all; what comes to fit can be claimed when the new width begins.
func (a *Agent) openGroups(ctx context.Context, s *search, full bool) error {
	_, before := a.pool.GroupsOpen()
	var err error
	if a.pool, err = a.readPool(ctx); err != nil {
		return err
	}
	if before+1 >= a.pool.UsableGroups() {
		if !full {
			return nil
		}
		if _, err := leasepool.Open(a.cfg.Store, a.cfg.Pool).WidenUnlessOpen(ctx); err != nil {
			return err
		}
		if a.pool, err = a.readPool(ctx); err != nil || before+1 >= a.pool.UsableGroups() {
			return err
		}
	}
	if _, last := a.pool.GroupsOpen(); last == before {
		w := protocol.OpenGroups{Pool: a.cfg.Pool, From: a.pool.OpenGroups, To: min(last+1+s.step(), a.pool.UsableGroups())}
		res, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolResult, error) { return a.cfg.Store.WritePool(ctx, w) })
		if err != nil {
			return err
		}
		if res.Pool != nil {
			a.pool = *res.Pool
		}
		if res.Applied && a.pool.Narrow() && a.pool.Bits() < protocol.BitsFor(a.pool.OpenGroups) {
			a.widen()
		}
	}
	s.opened(before + 1)
	return nil
}

// readPool reads the pool's item, for who has no number.
func (a *Agent) readPool(ctx context.Context) (protocol.PoolItem, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolItem, error) { return a.cfg.Store.PoolItem(ctx, a.cfg.Pool) })
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

// acquire finds a number and claims it. It waits for a free one for as long as
// wait says; ctx bounds everything.
func (a *Agent) acquire(ctx context.Context, wait time.Duration) (t *term, err error) {
	since := a.clock.Monotonic()
	session := newSession()
	var s search
	t, err = a.claim(ctx, guess(session, a.pool), session)
	for t == nil && err == nil {
		var o outlook
		c := a.claimOf(0, "")
		if o, err = a.look(ctx, c, &s); err != nil {
			break
		}
		if a.stale { // what it looked like to who did not know of the widening says nothing
			a.stale = false
			if a.pool, err = a.readPool(ctx); err != nil || a.pool.Widening.Try > c.Layout {
				continue
			}
		}
		if o.free >= 0 {
			t, err = a.claim(ctx, o.free, newSession())
			continue
		}
		now := a.clock.Wall()
		left := wait - (a.clock.Monotonic() - since)
		none := o.none(a.cfg.Pool, a.cfg, now)
		if left <= 0 || errors.Is(none, ErrClockBehind) {
			return nil, none
		}
		s.waiting = true
		a.emit(Event{Kind: EventWaiting, Lease: Lease{Pool: a.cfg.Pool, NodeID: -1}, Err: none})
		// A holder may release at any moment, so look about once a second.
		nap := time.Second/2 + rand.N(time.Second)
		if !o.next.IsZero() {
			nap = min(nap, max(o.next.Sub(now), 0)+protocol.Backoff(0))
		}
		if err := protocol.Pause(ctx, min(nap, left)); err != nil {
			return nil, errors.Join(none, err)
		}
		a.pool, err = a.readPool(ctx)
	}
	return t, err
}

// claimOf is a claim by this agent, as of now.
func (a *Agent) claimOf(node int, session string) protocol.Claim {
	w0 := a.clock.Wall()
	return protocol.Claim{
		Key: protocol.Key{Pool: a.cfg.Pool, NodeID: node}, Session: session, Task: a.cfg.Task, Metadata: a.metadataNow(),
		At: w0, ClaimGuard: a.cfg.ClaimGuard, TTL: a.cfg.TTL, ExpiresAt: w0.Add(a.cfg.TTL), ReservedUntil: a.pool.Capped(w0.Add(a.cfg.Reserve)), Layout: a.pool.Widening.Try,
	}
}

// claim tries one number until it is settled whose it is: nil and no error when
// it is someone else's. An attempt without an answer may have been done, or be
// done later, so the same session asks again instead of leaking the number.
func (a *Agent) claim(ctx context.Context, node int, session string) (*term, error) {
	a.uncap(ctx, a.clock.Wall())
	first := a.clock.Monotonic()
	doubt := false
	// An answer is of no use when the lease that it confirms is over.
	limit := min(protocol.CallLimit, (a.cfg.TTL-a.cfg.Guard)/2)
	for n := 0; ; n++ {
		m0 := a.clock.Monotonic()
		w := a.claimOf(node, session)
		one, cancel := context.WithTimeout(ctx, limit)
		res, err := a.cfg.Store.Write(one, w)
		cancel()
		took := a.clock.Monotonic() - m0
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			a.emit(Event{Kind: EventCorrupt, Lease: Lease{Pool: a.cfg.Pool, NodeID: node}, Took: took, Err: err})
			return nil, nil
		}
		var t *term
		if err == nil {
			if t = a.cfg.claimed(w, res, m0, first); t == nil {
				e := Event{Kind: EventTaken, Lease: Lease{Pool: a.cfg.Pool, NodeID: node}, Took: took}
				if res.Lease != nil {
					e.Lease = *res.Lease
					a.stale = a.stale || res.Lease.Layout > w.Layout
				}
				a.emit(e)
				return nil, nil
			}
		}
		if t != nil && t.held(a.clock.Monotonic()) {
			return t, nil
		}
		if t != nil { // the answer took longer than the lease: nothing was stamped, start afresh
			a.abandon(ctx, node, session)
			return nil, nil
		}
		doubt = doubt || !permanent(err)
		a.emit(Event{Kind: EventUnanswered, Lease: Lease{Pool: a.cfg.Pool, NodeID: node}, Took: took, Reason: protocol.Reason(err), Err: err})
		if !permanent(err) {
			if cause := protocol.Pause(ctx, protocol.Backoff(n)); cause == nil {
				continue
			} else {
				err = errors.Join(err, cause)
			}
		}
		if doubt {
			a.abandon(ctx, node, session)
		}
		return nil, err
	}
}

// abandon gives back a number that may have been claimed without our learning
// of it. It is a courtesy, tried once: the claim would expire by itself.
func (a *Agent) abandon(ctx context.Context, node int, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewLimit)
	defer cancel()
	_, err := a.cfg.Store.Write(ctx, protocol.Abandon{Key: protocol.Key{Pool: a.cfg.Pool, NodeID: node}, Session: session})
	if err != nil {
		a.emit(Event{Kind: EventNotReleased, Lease: Lease{Pool: a.cfg.Pool, NodeID: node}, Reason: protocol.Reason(err), Err: err})
	}
}
