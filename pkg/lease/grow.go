package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/tenure"
)

// growth is the state that an agent needs for its lease to grow.
type growth struct {
	room      tenure.Room                       // used only by the loop
	denied    bool                              // used only by the loop: this role may not store a measurement
	generates atomic.Bool                       // a generator was made
	short     atomic.Bool                       // see KeepShort
	mayNot    atomic.Bool                       // count was not permitted to store a measurement
	counted   atomic.Pointer[protocol.PoolItem] // the item with the measurement that count stored
}

// KeepShort ends the growth of the lease for the life of the agent, and renews the lease
// at once with TTL. Call it when other processes watch this lease to find out whether its
// holder is alive. It returns the expiry that was requested before: if the process dies
// earlier, other processes consider it alive until that time. Cluster nodes and discovery
// directories call KeepShort.
func (a *Agent) KeepShort() (until time.Time) {
	if a.absent() {
		return time.Time{}
	}
	again := a.growing.short.Swap(true)
	a.mu.Lock()
	l := a.term.Lease
	// The requested expiry is what matters, not the last confirmed one: a long renewal may
	// be in flight, and a short renewal that follows it does not shorten its expiry.
	until = a.term.Expires()
	grown := !again && until.Sub(a.timeline.Now()) > a.cfg.TTL
	a.mu.Unlock()
	if grown {
		a.emit(Event{Kind: EventWarning, Lease: Lease(l), Err: fmt.Errorf(
			"others watch this lease from now on, so it is as short as TTL again; if this process dies before %s, they see it until then", protocol.Stamp(until))})
		a.RenewNow()
	}
	return until
}

// TTL returns Config.TTL, the length of a lease that has not grown, and of every renewal
// after KeepShort. Lease.TTL is the length that the last confirmed renewal gave the
// lease, which may be longer.
func (a *Agent) TTL() time.Duration {
	if a.absent() {
		return 0
	}
	return a.cfg.TTL
}

// unrenewed is [siblings.Unrenewed].
func (a *Agent) unrenewed() time.Duration {
	if a.absent() {
		return math.MaxInt64
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.clock.Monotonic() - a.term.Sent + a.cfg.Guard
}

// growable reports whether leases of this agent grow if the pool has room. Without a
// generator they grow only if Config.Grow is set, since other processes may watch such a
// lease to find out whether its holder is alive.
func (a *Agent) growable() bool {
	return (a.cfg.Grow || a.growing.generates.Load()) && !a.growing.short.Load() && a.grownTimings().Grows()
}

// grownTimings returns the durations of the lease, as limited by the pool.
func (a *Agent) grownTimings() tenure.Timings { return a.cfg.timings().In(a.pool) }

// length returns the lease length that a renewal sent at the time m0 requests. The caller
// holds mu.
func (a *Agent) length(m0 time.Duration) tenure.Length {
	t := a.grownTimings()
	if !a.growable() || !a.growing.room.Grows(a.clock.Wall(), t.MaxSkew()) {
		return t.Short()
	}
	return t.Grown(m0 - a.term.Began)
}

// postpone delays the next renewal as long as the lease may no longer grow but is still
// longer than the renewal would make it. RenewNow ends the wait.
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

// sleep waits until d has passed on the agent's clock, which keeps running while
// the machine is suspended, or until RenewNow is called. It also ends, as if RenewNow was
// called, soon after the machine was restored from a snapshot.
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
			// Invariant: a restored process gives up its lease within seconds, however long the
			// lease has grown.
			if a.timeline.Copied() {
				return true, nil
			}
			if a.clock.Monotonic()-began >= d {
				return false, nil
			}
		}
	}
}

// measure reads the pool's measurement if that could make the lease longer and the last
// read is old enough. If it is this holder's turn, measure also starts a count of the
// pool's node IDs.
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
	// The time limit leaves most of the remaining lease for its renewal, even if there is no
	// answer.
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

// turnLimit is how long a count may take. The result of a longer count would be out of
// date.
const turnLimit = time.Minute

// count counts the pool's node IDs on behalf of all holders.
func (a *Agent) count(p protocol.PoolItem) {
	ctx, cancel := context.WithTimeout(a.life, turnLimit)
	defer cancel()
	at := a.clock.Wall()
	held, cooling, err := siblings.CountOpen(ctx, a.cfg.Store, p, at)
	if err != nil {
		return // another holder will count when it is its turn
	}
	res, err := a.cfg.Store.WritePool(ctx, protocol.Measure{Pool: a.cfg.Pool, Seen: p.Measured, Measured: tenure.Count(held, cooling, at)})
	switch {
	case errors.Is(err, ErrAccess):
		a.growing.mayNot.Store(true)
	case err == nil && res.Applied:
		a.growing.counted.Store(res.Pool)
	}
}

// glance reads the pool's item with an eventually consistent read, at half the price, if
// the store offers such reads.
func (a *Agent) glance(ctx context.Context) (protocol.PoolItem, error) {
	if s, ok := a.cfg.Store.(interface {
		EventualPoolItem(context.Context, string) (protocol.PoolItem, error)
	}); ok {
		return s.EventualPoolItem(ctx, a.cfg.Pool)
	}
	return a.cfg.Store.PoolItem(ctx, a.cfg.Pool)
}
