package lease

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
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

// acquire finds a number and claims it. It waits for a free one for as long as
// wait says; ctx bounds everything.
func (a *Agent) acquire(ctx context.Context, wait time.Duration) (t *term, err error) {
	since := a.clock.Monotonic()
	session := newSession()
	var s search
	t, err = a.claim(ctx, guess(session, a.pool), session)
	for t == nil && err == nil {
		var o outlook
		c := a.claimOf(0, "") // the terms on which any number would be claimed
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
		s.waiting = true
		if err = a.nap(ctx, o, wait-(a.clock.Monotonic()-since)); err == nil {
			a.pool, err = a.readPool(ctx)
		}
	}
	return t, err
}

// nap waits a while for a number to become free, after a look that found none; for
// at most left, and not at all where waiting would mend nothing.
func (a *Agent) nap(ctx context.Context, o outlook, left time.Duration) error {
	now := a.clock.Wall()
	none := o.none(a.cfg.Pool, a.cfg, now)
	if left <= 0 || errors.Is(none, ErrClockBehind) {
		return none
	}
	a.emit(Event{Kind: EventWaiting, Lease: a.about(wholePool), Err: none})
	// A holder may release at any moment, so look about once a second.
	nap := time.Second/2 + rand.N(time.Second)
	if !o.next.IsZero() {
		nap = min(nap, max(o.next.Sub(now), 0)+protocol.Backoff(0))
	}
	if err := protocol.Pause(ctx, min(nap, left)); err != nil {
		return errors.Join(none, err)
	}
	return nil
}

// newSession names one life of a lease.
func newSession() string { return uuid.Must(uuid.NewV7()).String() }
