package lease

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
)

// The choice of a node ID is hardest for a fleet that starts at once: a herd of N
// tasks on M node IDs. The first guess is blind, a hash of the session inside the open
// groups. A task that finds its guess taken reads a group with one strong Query and
// takes a random free node ID. Simulated with 1,024 tasks on 1,024 node IDs that costs
// 1.5 writes and 0.5 queries per task. The first free node ID, which other
// implementations take, costs 11 to 500 writes. search chooses the groups and bounds
// their number: nothing reads the whole of a large pool.

// guess returns the node ID that a session tries first; false if the pool has none.
func guess(session string, p protocol.PoolItem) (node int, ok bool) {
	low, high := p.Open()
	if high <= low {
		return 0, false
	}
	h := fnv.New64a()
	h.Write([]byte(session))
	return low + int(h.Sum64()%uint64(high-low)), true
}

// acquire finds a node ID and claims it. It waits up to wait for a free one; ctx
// bounds everything.
func (a *Agent) acquire(ctx context.Context, wait time.Duration) (t *term, err error) {
	since := a.clock.Monotonic()
	session := newSession()
	var s search
	first, ok := guess(session, a.pool)
	if !ok {
		return nil, &CorruptError{Pool: a.cfg.Pool, NodeID: wholePool, Err: fmt.Errorf(
			"it has no node IDs to lease: pool_size %d, of which %d are excluded and %d may exist (widen_numbers)", a.pool.Size, a.pool.ExcludeBelow, a.pool.Limit())}
	}
	t, err = a.claim(ctx, first, session)
	for t == nil && err == nil {
		var o outlook
		a.uncap(ctx, a.clock.Wall()) // a widener that died meanwhile keeps no node ID from those who wait
		c := a.claimOf(0, "")        // the terms on which any node ID would be claimed
		if o, err = a.look(ctx, c, &s); err != nil {
			break
		}
		if a.stale { // this look predates the widening; reload and retry
			a.stale = false
			if a.pool, err = a.readPool(ctx); err != nil || a.pool.Widening.Try > c.WidenTry {
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

// nap waits for a node ID to become free after a search that found none, for at most
// left.
func (a *Agent) nap(ctx context.Context, o outlook, left time.Duration) error {
	now := a.clock.Wall()
	none := o.none(a.pool, a.cfg, now)
	if left <= 0 {
		return none
	}
	a.emit(Event{Kind: EventWaiting, Lease: a.about(wholePool), Err: none})
	// A holder may release at any moment, so look about once a second.
	nap := time.Second/2 + rand.N(time.Second)
	// A time that has passed is none to wait for: what keeps the node ID is something
	// else, such as an open widening.
	if soon := o.next.Sub(now); soon > 0 {
		nap = min(nap, soon+protocol.Backoff(0))
	}
	if err := protocol.Pause(ctx, min(nap, left)); err != nil {
		return errors.Join(none, err)
	}
	return nil
}

// newSession names one life of a lease.
func newSession() string { return uuid.Must(uuid.NewV7()).String() }
