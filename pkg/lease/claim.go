package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// The choice of a node ID is hardest for a fleet that starts at once. A task first
// guesses, without reading anything. If the guessed node ID is taken, it searches:
// [tenure.Search] chooses the groups and limits their number.
//
// Pages are read with eventual consistency, at half the price. A page only suggests node
// IDs to try: the conditional write of the claim decides. Only the answer "there is no
// free node ID" is not checked by a condition. So the search that ends a start with
// [ErrPoolExhausted] uses strongly consistent reads: an agent that starts after another
// agent has released its node ID finds that node ID.

// acquire finds a node ID and claims it. It waits for a free node ID for at most the
// duration wait; ctx limits the whole call.
func (a *Agent) acquire(ctx context.Context, wait time.Duration) (t *tenure.Term, err error) {
	since := a.clock.Monotonic()
	session := newSession()
	_, eventual := a.cfg.Store.(protocol.EventualStore)
	_, parts := a.cfg.Store.(protocol.PartStore)
	s := tenure.Search{Strong: !eventual, Parts: parts}
	first, ok := tenure.Guess(session, a.pool)
	if !ok {
		return nil, &CorruptError{Pool: a.cfg.Pool, NodeID: wholePool, Err: fmt.Errorf(
			"it has no node IDs to lease: pool_size %d, of which %d are excluded and %d may exist (exist_below)", a.pool.Size, a.pool.ExcludeBelow, a.pool.Limit())}
	}
	s.Taken = tenure.MostlyTaken(a.pool, a.clock.Wall(), a.cfg.timings().MaxSkew())
	guess := !s.Taken
	if u := a.pending(); u != nil { // settled before another node ID is tried
		// A release that was sent may still arrive. It would then free whatever its session
		// holds at that time, including milliseconds that were already stamped. So that session
		// never claims again (S1). A node ID that the pool no longer has is given up too.
		if u.givenUp || u.node >= a.pool.Limit() {
			if err := a.abandon(ctx, u.node, u.session); err != nil {
				return nil, err
			}
		} else {
			first, session, guess = u.node, u.session, true
		}
	}
	if guess {
		t, err = a.claim(ctx, first, session, &s)
	}
	w := tenure.Wait{Off: wait <= 0}
	var o tenure.Outlook
	for t == nil && err == nil {
		a.uncap(ctx, a.clock.Wall()) // a dead widener must not keep node IDs from claimants that wait
		left := wait - (a.clock.Monotonic() - since)
		if w.On && left <= 0 {
			w.On, s.Strong, s.Waiting, s.Paced = false, true, false, 0
			if err = a.verify(ctx); err != nil {
				break
			}
		}
		if w.On {
			node, search, wrong := a.await(ctx, &w, &s, o, left)
			if err = wrong; err == nil && node >= 0 {
				t, err = a.claim(ctx, node, newSession(), &s)
			}
			if !search || err != nil {
				continue
			}
		}
		if pause := s.Pause(); pause > 0 && !w.On {
			if err = protocol.Pause(ctx, pause); err != nil {
				break
			}
		}
		var seen tenure.Outlook
		c := a.claimOf(0, "") // a claim whose values apply to any node ID
		if seen, err = a.look(ctx, c, &s, &w); err != nil {
			break
		}
		if a.stale { // this search predates the widening; reload and retry
			a.stale = false
			if err = a.verify(ctx); err != nil || a.pool.Widening.Try > c.WidenTry {
				continue
			}
		}
		if seen.Free < 0 && a.hinted { // before waiting or giving up: the pool may have grown since the hint card was written
			before := a.pool.Revision
			if err = a.verify(ctx); err != nil || a.pool.Revision != before {
				continue
			}
		}
		if seen.Free >= 0 {
			t, err = a.claim(ctx, seen.Free, newSession(), &s)
			if node, ok := s.Second(a.clock.Monotonic()); ok && t == nil && err == nil && !a.stale && !w.On && ctx.Err() == nil {
				t, err = a.claim(ctx, node, newSession(), &s)
			}
			continue
		}
		w.Found(seen, a.clock.Monotonic())
		if seen.Groups >= o.Groups || s.Paced == 0 {
			o = seen
		}
		switch {
		case wait-(a.clock.Monotonic()-since) > 0:
			w.On, s.Waiting = true, true
		case s.Strong && s.Paced == 0:
			err = a.cfg.none(o, a.pool, a.clock.Wall())
		default: // the last search covers as many groups as the first, with strong reads
			w.On, s.Strong, s.Waiting, s.Paced = false, true, false, 0
		}
	}
	return t, err
}

// nap pauses after a search that found no free node ID, for at most the duration left.
func (a *Agent) nap(ctx context.Context, w *tenure.Wait, o tenure.Outlook, left time.Duration) error {
	now := a.clock.Wall()
	none := a.cfg.none(o, a.pool, now)
	a.emit(Event{Kind: EventWaiting, Lease: a.about(wholePool), Err: none})
	nap := w.Pause(now) // short, since a holder may release at any moment
	// If o.Next has passed, something else, such as an open widening, keeps the node ID from
	// being claimed, so there is no known time to wait for.
	if soon := o.Next.Sub(now); w.Off && soon > 0 {
		nap = min(nap, soon+protocol.Backoff(0))
	}
	if err := protocol.Pause(ctx, min(nap, left)); err != nil {
		return errors.Join(none, err)
	}
	return nil
}

// newSession returns a new session, which names one life of a lease.
func newSession() string { return uuid.Must(uuid.NewV7()).String() }

// look reads groups until it finds a group with node IDs that c could claim, and picks
// one of these at random. It reads no more pages than s allows.
func (a *Agent) look(ctx context.Context, c protocol.Claim, s *tenure.Search, w *tenure.Wait) (tenure.Outlook, error) {
	o := tenure.Outlook{Free: -1}
	s.Begin()
	for n, part, ok := s.Next(a.pool, c.At); ok; n, part, ok = s.Next(a.pool, c.At) {
		g, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) {
			return asking(a, func() (protocol.Group, error) { return a.page(ctx, n, part, s.Strong) })
		})
		if err != nil {
			return o, err
		}
		for _, corrupt := range g.Corrupt {
			a.emit(Event{Kind: EventCorrupt, Lease: a.about(corrupt.NodeID), Err: corrupt})
		}
		one := tenure.Outlook{}
		read := a.clock.Monotonic()
		free := s.Believe(one.Add(g, a.pool, c), read)
		a.stale = a.stale || one.Newer
		if part.Whole() {
			o.Merge(one)
			if len(free) == 0 {
				s.FoundFull(n, one.Next)
			}
		}
		// The newest group is the emptiest, so if it is crowded, all groups are. If only a part
		// of that group was read, and the part still has a free node ID, it may be crowded only
		// by chance. Opening groups in that case makes starts cheaper, but in a narrow pool it
		// also makes the node IDs wider.
		chance := !part.Whole() && len(free) > 0 && a.pool.Narrow()
		if _, last := a.pool.GroupsOpen(); n == last && !chance && one.Crowded(a.pool.Narrow() || !part.Whole()) && last+1 < a.pool.Groups() {
			if err := a.openGroups(ctx, s, part.Whole() && one.Held == one.Usable); err != nil {
				return o, err
			}
		}
		if len(free) > 0 {
			o.Free = s.Found(free, read)
			w.Spare(free, o.Free)
			break
		}
		if w.Joins(o.Groups, a.pool) && a.poll(ctx, w) && w.Awaited(a.clock.Wall()) {
			break
		}
	}
	first, last := a.pool.GroupsOpen()
	o.Open = last + 1 - first
	return o, nil
}

// page reads one group, or a part of it.
func (a *Agent) page(ctx context.Context, n int, part protocol.Part, strong bool) (protocol.Group, error) {
	if strong {
		return a.cfg.Store.Group(ctx, a.cfg.Pool, n)
	}
	if s, ok := a.cfg.Store.(protocol.PartStore); ok && !part.Whole() {
		return s.EventualPart(ctx, a.cfg.Pool, n, part)
	}
	return protocol.EventualGroup(ctx, a.cfg.Store, a.cfg.Pool, n)
}

// none returns the reason why a claimant found no node ID of pool p; at is the time on
// the claimant's clock.
//
// Other holders' reservations do not prove that this machine's clock is behind: their
// leases may be longer, and a freed node ID stays reserved for as long as its holder or
// an operator's raise reserved it. Only the store's clock, which was read before the time
// at, can prove that this clock is behind. A store that sends no time proves nothing.
func (c Config) none(o tenure.Outlook, p protocol.PoolItem, at time.Time) error {
	if p.ServerTime.Sub(at) > c.timings().MaxSkew() {
		return fmt.Errorf("%w: this machine's clock says %s, and the store's said %s before: repair the clock, or wait until then",
			ErrClockBehind, protocol.Stamp(at), protocol.Stamp(p.ServerTime))
	}
	return &ExhaustedError{Pool: p.Pool, Size: o.Usable, unseen: o.Open - o.Groups, NextFree: o.Next}
}

// claim tries to claim one node ID until it is certain who holds it. If someone else
// holds it, claim records that in s and returns neither a term nor an error. An
// unanswered attempt may have succeeded, or may succeed later, so claim tries again with
// the same session instead of leaking the node ID.
func (a *Agent) claim(ctx context.Context, node int, session string, s *tenure.Search) (*tenure.Term, error) {
	a.uncap(ctx, a.clock.Wall())
	first := a.clock.Monotonic()
	first, doubt := a.record(node, session, first)
	for n := 0; ; n++ {
		t, err := a.tryClaim(ctx, node, session, first, s)
		switch {
		case t != nil && t.Held(a.clock.Monotonic()):
			return t, nil
		case t != nil: // the answer took longer than the lease: nothing was stamped, start afresh
			return nil, a.abandon(ctx, node, session)
		case err == nil:
			a.settled()
			return nil, nil
		}
		if u := a.pending(); u != nil && u.givenUp { // the next use settles it
			return nil, err
		}
		doubt = doubt || !permanent(err)
		if !permanent(err) {
			cause := protocol.Pause(ctx, protocol.Backoff(n))
			if cause == nil {
				continue
			}
			err = errors.Join(err, cause)
		}
		switch {
		case !doubt:
			a.settled()
		case a.napping == nil: // an on-demand agent settles the claim at its next use
			_ = a.abandon(ctx, node, session)
		}
		return nil, err
	}
}

// tryClaim makes one attempt for a session whose first attempt was sent at the time
// first. It returns the new term. If the node ID belongs to someone else or its item is
// corrupt, it returns neither a term nor an error.
func (a *Agent) tryClaim(ctx context.Context, node int, session string, first time.Duration, s *tenure.Search) (*tenure.Term, error) {
	a.announce(ctx)
	a.mu.Lock()
	a.attemptNow()
	a.mu.Unlock()
	m0 := a.clock.Monotonic()
	w := a.claimOf(node, session)
	// Invariant: no claim is sent with a clock that has jumped since the store's clock agreed
	// with it. If it is ahead, other holders may still rely on leases that have expired by it. If
	// it is behind, the lease expires for others while this agent still relies on it (S2).
	if a.jumped(w.At, m0) {
		if err := a.compareAgain(ctx); err != nil {
			return nil, err
		}
		return a.tryClaim(ctx, node, session, first, s)
	}
	// An answer is useless if the lease that it confirms is already over.
	one, cancel := context.WithTimeout(ctx, min(protocol.CallLimit, (a.cfg.TTL-a.cfg.Guard)/2))
	res, err := asking(a, func() (protocol.Result, error) { return a.cfg.Store.Write(one, w) })
	cancel()
	e := Event{Lease: a.about(node), Took: a.clock.Monotonic() - m0, Err: err}
	if err != nil {
		e.Kind, e.Reason = EventUnanswered, protocol.Reason(err)
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			if corrupt.Written { // keep the reservation, even if it is wrong
				if unsettled := a.abandon(ctx, node, session); unsettled != nil {
					return nil, unsettled
				}
			}
			s.Broken(node)
			e.Kind, e.Reason, err = EventCorrupt, "", nil
		}
		a.emit(e)
		return nil, err
	}
	t := a.cfg.timings().Claimed(w, res, m0, first)
	if t == nil {
		e.Kind = EventTaken
		s.Refused(node, m0+e.Took, e.Took)
		if res.Lease != nil {
			e.Lease = Lease(*res.Lease)
			a.stale = a.stale || res.Lease.WidenTry > w.WidenTry
		}
		a.emit(e)
	}
	return t, nil
}

// claimOf returns a claim of a node ID by this agent, with the current time.
func (a *Agent) claimOf(node int, session string) protocol.Claim {
	c := a.cfg.timings().Claim(protocol.Key{Pool: a.cfg.Pool, NodeID: node}, session, a.clock.Wall(), a.pool)
	c.Task = a.cfg.Task
	c.Metadata = a.metadataNow()
	c.OnDemand = a.napping != nil
	now := a.clock.Monotonic()
	a.mu.Lock()
	defer a.mu.Unlock()
	c.Patience = a.outage.Patience(now)
	return c
}

// asking sends a request, and records for later claims whether it was answered: see
// [tenure.Outage].
func asking[T any](a *Agent, send func() (T, error)) (T, error) {
	sent := a.clock.Monotonic()
	v, err := send()
	now := a.clock.Monotonic()
	var corrupt *CorruptError
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outage.Asked(sent, now, err == nil || permanent(err) || errors.As(err, &corrupt))
	return v, err
}

// abandon releases a node ID whose claim may have succeeded without an answer. The
// release is a courtesy and is tried only once, since the claim would expire by itself.
// If the release is not answered, abandon returns an error only for an on-demand agent.
// Such an agent sends nothing after ctx has ended, and must settle this node ID before it
// tries another.
func (a *Agent) abandon(ctx context.Context, node int, session string) error {
	// Invariant: a claim that a machine restored from a snapshot may share is never abandoned,
	// since the original may have bound its span (S1).
	if a.timeline.Copied() {
		a.settled()
		return nil
	}
	if a.napping == nil {
		ctx = context.WithoutCancel(ctx)
	} else if u := a.pending(); u != nil {
		u.givenUp = true
	}
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	_, err := a.cfg.Store.Write(ctx, protocol.Abandon{Key: protocol.Key{Pool: a.cfg.Pool, NodeID: node}, Session: session})
	if err != nil {
		a.emit(Event{Kind: EventNotReleased, Lease: a.about(node), Reason: protocol.Reason(err), Err: err})
		// A corrupt item stays so. The session has been given up and never claims again, so the
		// node ID rests until someone repairs it, and the agent tries another one.
		var corrupt *CorruptError
		if a.napping != nil && !errors.As(err, &corrupt) {
			return err
		}
	}
	a.settled()
	return nil
}
