package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// growth is what an agent needs to know for its lease to grow.
type growth struct {
	room      tenure.Room                       // the loop's
	denied    bool                              // the loop's: this role may not store a measurement
	generates atomic.Bool                       // a generator was made
	short     atomic.Bool                       // see KeepShort
	mayNot    atomic.Bool                       // it tried to store a measurement, and was denied
	counted   atomic.Pointer[protocol.PoolItem] // with the measurement that it has stored
}

// KeepShort ends the growth of the lease for the life of the agent, and renews at once
// with TTL: for others who watch this lease to learn whether its holder lives. It
// returns until when the expiry counts that was asked for before: if the process dies
// earlier, others see it until then. A cluster node and a discovery directory call it.
func (a *Agent) KeepShort() (until time.Time) {
	if a.growing.short.Swap(true) {
		return a.expires()
	}
	a.mu.Lock()
	l := a.term.Lease
	// By what was asked for, not by the last answer: a long renewal may be under way, and
	// a short one that came after it leaves the long expiry as it is.
	until = a.term.Expires()
	grown := until.Sub(a.timeline.Now()) > a.cfg.TTL
	a.mu.Unlock()
	if grown {
		a.emit(Event{Kind: EventWarning, Lease: l, Err: fmt.Errorf(
			"others watch this lease from now on, so it is as short as TTL again; if this process dies before %s, they see it until then", protocol.Stamp(until))})
		a.RenewNow()
	}
	return until
}

// TTL returns the length of a lease that has not grown, Config.TTL: that of every renewal
// after KeepShort. The TTL of Lease is that of the last renewal, which may be longer.
func (a *Agent) TTL() time.Duration { return a.cfg.TTL }

// expires returns the latest expiry that was asked for.
func (a *Agent) expires() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term.Expires()
}

// Unrenewed returns how long ago the last confirmed renewal was sent, and Guard.
func (a *Agent) Unrenewed() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.clock.Monotonic() - a.term.Sent + a.cfg.Guard
}

// growable reports whether leases of this agent grow where there is room. Those of an
// agent without a generator are watched for other reasons than IDs.
func (a *Agent) growable() bool {
	return (a.cfg.Grow || a.growing.generates.Load()) && !a.growing.short.Load() && a.grownTimings().Grows()
}

// grownTimings are the durations in this pool.
func (a *Agent) grownTimings() tenure.Timings { return a.cfg.timings().In(a.pool) }

// length returns the length to ask for with a renewal at m0. The caller holds mu.
func (a *Agent) length(m0 time.Duration) tenure.Length {
	t := a.grownTimings()
	if !a.growable() || !a.growing.room.Grows(a.clock.Wall(), t.MaxSkew()) {
		return t.Short()
	}
	return t.Grown(m0 - a.term.Began)
}

// postpone waits while this holder may no longer grow and trusts a longer lease than it
// would get. RenewNow ends the wait.
func (a *Agent) postpone(ctx context.Context) error {
	for {
		a.measure(ctx)
		a.mu.Lock()
		now := a.clock.Monotonic()
		left := a.term.Postponed(now)
		grows := a.length(now).Lease > a.cfg.TTL
		a.mu.Unlock()
		if left <= 0 || grows || a.growing.short.Load() {
			return nil
		}
		if nudged, err := a.sleep(ctx, min(left, time.Minute+rand.N(time.Minute))); nudged || err != nil {
			return err
		}
	}
}

// sleep waits until d has passed on the agent's clock, which goes on in a suspended
// machine, or RenewNow was called.
func (a *Agent) sleep(ctx context.Context, d time.Duration) (nudged bool, err error) {
	const slice = 15 * time.Second
	began := a.clock.Monotonic()
	due := time.NewTimer(d)
	defer due.Stop()
	var some <-chan time.Time
	if d > slice {
		t := time.NewTicker(slice)
		defer t.Stop()
		some = t.C
	}
	for {
		select {
		case <-due.C:
			return false, nil
		case <-a.nudged:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		case <-some:
			if a.clock.Monotonic()-began >= d {
				return false, nil
			}
		}
	}
}

// measure reads the pool's measurement, if the lease would be longer for it and the last
// read is old enough; and counts, if it is this holder's turn.
func (a *Agent) measure(ctx context.Context) {
	t := a.grownTimings()
	now := a.clock.Monotonic()
	a.mu.Lock()
	age, left := now-a.term.Began, a.term.Deadline-now
	a.mu.Unlock()
	r := &a.growing.room
	if p := a.growing.counted.Swap(nil); p != nil {
		r.Learn(*p)
	}
	if left <= 0 || !a.growable() || !r.Due(t, age, now) {
		return
	}
	r.Asked(now)
	// Without an answer, most of what is left of the lease is left for its renewal.
	one, cancel := context.WithTimeout(ctx, min(renewLimit, left/4))
	defer cancel()
	p, err := a.glance(one)
	if err != nil {
		if ctx.Err() == nil {
			a.unanswered(a.about(wholePool), err)
		}
		return
	}
	r.Learn(p)
	if !a.growing.denied && r.Turn(p, a.clock.Wall(), t.MaxSkew(), rand.Float64()) {
		a.background.Go(func() { a.count(p) })
	}
	if a.growing.mayNot.Swap(false) {
		a.growing.denied = true
	}
}

// turnLimit is how long a count may take: after it the count says nothing.
const turnLimit = time.Minute

// count counts the pool's node IDs for all holders.
func (a *Agent) count(p protocol.PoolItem) {
	ctx, cancel := context.WithTimeout(a.life, turnLimit)
	defer cancel()
	at := a.clock.Wall()
	held, cooling, err := leasepool.CountOpen(ctx, a.cfg.Store, p, at)
	if err != nil {
		return // another holder's turn comes
	}
	res, err := a.cfg.Store.WritePool(ctx, protocol.Measure{Pool: a.cfg.Pool, Seen: p.Measured, Measured: tenure.Count(held, cooling, at)})
	switch {
	case errors.Is(err, ErrAccess):
		a.growing.mayNot.Store(true)
	case err == nil && res.Applied:
		a.growing.counted.Store(res.Pool)
	}
}

// glance reads the pool's item at half the price, where the store offers that.
func (a *Agent) glance(ctx context.Context) (protocol.PoolItem, error) {
	if s, ok := a.cfg.Store.(interface {
		EventualPoolItem(context.Context, string) (protocol.PoolItem, error)
	}); ok {
		return s.EventualPoolItem(ctx, a.cfg.Pool)
	}
	return a.cfg.Store.PoolItem(ctx, a.cfg.Pool)
}
