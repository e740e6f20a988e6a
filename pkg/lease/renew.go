package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// loop renews until the lease is lost or the agent is closed. Nothing else sends
// renewals.
func (a *Agent) loop(ctx context.Context) {
	defer close(a.stopped)
	failures := 0
	for {
		if a.rest(ctx, failures) != nil {
			return
		}
		// A copy gives up the lease without a write, since the original may continue to use the
		// lease.
		if a.timeline.Copied() {
			a.lose(a.term, a.copied())
		}
		if err := a.current(); err == nil {
			failures++
			if a.renew(ctx) {
				if failures > 1 { // as for the whole fleet, if the table was unavailable
					a.inStep()
				}
				failures = 0
				a.askECSAgain(ctx)
			}
		}
		if err := a.current(); err != nil {
			if ctx.Err() != nil || !a.replace(ctx, err) {
				return
			}
			failures = 0
		}
	}
}

// rest waits until the next renewal is due, or until RenewNow requests one. After a
// failure, the next renewal is due soon anyway, so RenewNow does not shorten the backoff.
func (a *Agent) rest(ctx context.Context, failures int) error {
	if failures > 0 {
		return protocol.Pause(ctx, a.askAgainIn(failures-1))
	}
	a.mu.Lock()
	t, now := a.cfg.timings(), a.clock.Monotonic()
	due := jitter(t.Pause(a.term, now))
	if a.stepped {
		due = t.FirstIn(a.term.Length, a.term.Deadline-now, rand.Float64())
	}
	a.mu.Unlock()
	if nudged, err := a.sleep(ctx, due); nudged || err != nil {
		return err // stepped stays set: a fleet that calls RenewNow as it starts is still in step
	}
	a.mu.Lock()
	a.stepped = false
	a.mu.Unlock()
	return a.postpone(ctx)
}

// inStep records that renewals of other agents in the fleet were probably confirmed in
// the same second as this agent's. The agent's next renewal, and only that one, then
// comes at a random time in a whole interval.
func (a *Agent) inStep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stepped = true
}

// askAgainIn returns the pause after the nth renewal without an answer, counted from 0.
func (a *Agent) askAgainIn(n int) time.Duration {
	now := a.timeline.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.term.Held(a.clock.Monotonic()) {
		return protocol.Backoff(n)
	}
	least, most := suspendedPause(a.term.Lease.ReservedUntil.Sub(now))
	if a.sentHeld || n == 0 {
		least = 0
	}
	return least + rand.N(most-least+1)
}

// suspendedPause returns the shortest and the longest pause between the renewals of a
// suspended holder whose milliseconds stay reserved for left. The holder's node ID cannot
// be taken in that time, so a fleet that waits for its table need not send all its
// requests at once. As left shrinks, each holder sends requests more often, up to one a
// second. Once left is below 20 s, all pauses are one second. Constant pauses would keep
// a fleet in step if its members were suspended at the same moment, such as all processes
// on a machine that was frozen. So askAgainIn draws the first pause of a suspension from
// 0 upwards.
func suspendedPause(left time.Duration) (least, most time.Duration) {
	return time.Second, max(min(5*time.Second, left/20), time.Second)
}

// jitter changes d by up to 10 % at random, to spread a fleet's renewals.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// current returns the reason why the current term ended, or nil while the term continues.
func (a *Agent) current() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// lose ends a term permanently: it fences, then announces the loss. The caller passes the
// term, so that late news about a finished term does not end the next term.
func (a *Agent) lose(t *tenure.Term, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loseNow(t, err)
}

// loseNow is lose for a caller that holds mu.
func (a *Agent) loseNow(t *tenure.Term, err error) {
	if a.term != t || a.over != nil {
		return
	}
	a.over = err
	a.timeline.Seal()
	a.tellNow(Event{Kind: EventLost, Lease: Lease(t.Lease), Err: err})
	if !a.reacquires() {
		a.endNow(err)
	}
}

// replace claims another node ID after a loss, if OnLost is Reacquire or Start has not
// returned, and reports whether the loop continues.
func (a *Agent) replace(ctx context.Context, lost error) bool {
	a.mu.Lock()
	on, starting := a.reacquires(), a.starting
	a.mu.Unlock()
	if !on {
		return false
	}
	for n := 0; ; n++ {
		wait := a.giveUp(ctx, a.current(), n)
		if starting {
			wait = min(wait, a.cfg.Wait)
		}
		err := a.take(ctx, wait)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if fatal(err) {
			a.end(errors.Join(lost, err))
			return false
		}
		// Invariant (liveness): a start reports that the pool is exhausted, as it would have without
		// the loss, rather than that a node ID was lost.
		if starting && wait == a.cfg.Wait && errors.Is(err, ErrPoolExhausted) {
			a.end(fmt.Errorf("%w; the node ID before was not usable: %s", err, lost.Error()))
			return false
		}
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: err})
		if protocol.Pause(ctx, protocol.Backoff(n)) != nil {
			return false
		}
	}
}

// renewLimit is how long a renewal may take before another one is tried. The later an
// answer comes, the less of the lease that it confirms is left.
const renewLimit = time.Second

// renew sends one renewal and reports whether it was confirmed.
func (a *Agent) renew(ctx context.Context) bool {
	a.uncap(ctx, a.timeline.Now())
	a.unstick(ctx)
	a.announce(ctx)
	// Invariant: a restored process renews nothing, even if the snapshot was made during one of
	// these waits. Its renewal would take the lease from the original.
	if a.timeline.Copied() {
		return false
	}
	a.mu.Lock()
	a.attemptNow()
	// The number of the renewal, both clock readings and the requested values are taken
	// together, under mu. m0 is read before the request is sent. w0 is the time of the clock
	// that generators use, so that no renewal requests an earlier expiry after the wall
	// clock has stepped back.
	m0 := a.clock.Monotonic()
	t := a.term
	a.sentHeld = t.Held(m0)
	w0 := a.timeline.Now()
	at, ok := t.Attempt(m0, w0, a.pool, a.length(m0))
	if !ok {
		a.mu.Unlock()
		a.unanswered(Lease(t.Lease), fmt.Errorf("lease: pool %q changes its width, and node %d waits for that with its renewal", a.cfg.Pool, t.Lease.NodeID))
		return false
	}
	if a.metadata.changed {
		at.Write.Metadata = a.metadata.all
	}
	// A confirmed renewal does not show that the wall clock is right. So after the wall
	// clock jumps ahead, the ceiling stays as it is until checkJump has compared the clocks.
	// On-demand agents are an exception, because their reservations are short, and their
	// wall clock jumps at each freeze that the monotonic clock does not include.
	ceiling, jumped := t.Ceiling(w0, m0), a.napping == nil && w0.After(a.ceiling.At.Add(m0-a.ceiling.Mono))
	if jumped {
		ceiling = a.ceiling
	}
	limit := renewLimit
	if left := t.Deadline - m0; left > 0 {
		limit = min(limit, left)
	}
	a.mu.Unlock()

	one, cancel := context.WithTimeout(ctx, limit)
	res, err := asking(a, func() (protocol.Result, error) { return a.cfg.Store.Write(one, at.Write) })
	cancel()
	e := Event{Took: a.clock.Monotonic() - m0, Lease: Lease(t.Lease), Err: err}
	if err != nil {
		a.refusedBy(err)
		if ctx.Err() == nil {
			e.Kind, e.Reason = EventUnanswered, protocol.Reason(err)
			a.emitNow(e)
		}
		// No renewal of an item that was broken by hand succeeds again. An agent that may claim
		// another node ID does so once it can no longer rely on this one.
		var corrupt *CorruptError
		if a.cfg.OnLost == Reacquire && errors.As(err, &corrupt) && a.isOver(t) {
			a.lose(t, fmt.Errorf("%w: the item of node %d of pool %q is corrupt: %w", ErrLost, t.Lease.NodeID, a.cfg.Pool, err))
		}
		return false
	}
	if !res.Applied {
		switch t.Refused(at, res.Lease) {
		case tenure.Landed:
		case tenure.Stale:
			if a.reread(ctx) && res.Lease.WidenTry > a.pool.Widening.Try {
				wrong := fmt.Errorf("lease: node %d was marked for widening %d, and its pool knows of %d", t.Lease.NodeID, res.Lease.WidenTry, a.pool.Widening.Try)
				a.unanswered(Lease(t.Lease), wrong)
				// Invariant (liveness): a mark that was written by hand is left like any other broken item.
				if a.cfg.OnLost == Reacquire && a.isOver(t) {
					a.lose(t, fmt.Errorf("%w: %w", ErrLost, wrong))
				}
			}
			return false // the renewal is tried again
		case tenure.Cloned:
			a.lose(t, fmt.Errorf("%w: node %d of pool %q was renewed by a copy of this process (a cloned machine, a forked process)", ErrLost, t.Lease.NodeID, a.cfg.Pool))
			a.expose(ctx, t, res.Lease)
			return false
		case tenure.Taken:
			a.lose(t, fmt.Errorf("%w: node %d of pool %q %s", ErrLost, t.Lease.NodeID, a.cfg.Pool, whose(res.Lease, t.Lease.Version)))
			return false
		}
	}
	a.confirm(t, *res.Lease, at, ceiling, e)
	if at.Again {
		a.RenewNow()
	}
	if jumped {
		a.checkJump(ctx, t, t.Ceiling(w0, m0))
	}
	a.checkFloor(ctx)
	return true
}

// checkJump raises the ceiling of stamps after the wall clock has jumped ahead, once the
// store's clock confirms the new time. Until then, the ceiling from before the jump
// applies. If the store sends no time, the ceiling sent, which follows from this
// renewal's clock readings, applies at once.
func (a *Agent) checkJump(ctx context.Context, t *tenure.Term, sent snowflake.Ceiling) {
	wall, mono, v := a.compare(ctx)
	if v == right {
		sent = t.Ceiling(wall, mono)
	} else if v != untold {
		return // and the next renewal asks again
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.term == t && a.over == nil {
		a.raiseNow(sent)
	}
}

// raiseNow replaces the ceiling of stamps. The caller holds mu.
func (a *Agent) raiseNow(c snowflake.Ceiling) {
	a.ceiling = c
	a.timeline.SetCeiling(c)
}

// comparison is the result of comparing this machine's clock with the store's.
type comparison int

const (
	unknown comparison = iota // no answer, or an answer that came too late to be useful
	untold                    // the store sends no time
	right                     // within the tolerance of leases
	wrong
)

// compare reads the pool's item to compare the wall clock with the store's clock. It also
// returns the readings of both clocks of this machine after the answer.
func (a *Agent) compare(ctx context.Context) (wall time.Time, mono time.Duration, c comparison) {
	before := a.clock.Wall()
	if !a.reread(ctx) {
		return wall, mono, unknown
	}
	mono = a.clock.Monotonic()
	wall = a.clock.Wall()
	switch {
	case a.pool.ServerTime.IsZero():
		return wall, mono, untold
	case wall.Sub(before) > 2*renewLimit: // after a long pause, almost any clock would pass the comparison
		return wall, mono, unknown
	case protocol.CheckSkew(before, wall, a.pool.ServerTime, a.cfg.timings().MaxSkew()) != nil:
		return wall, mono, wrong
	}
	return wall, mono, right
}

// checkFloor sets the clock of renewals back to the wall clock if the wall clock was
// ahead at the time of the claim. The wall clock alone cannot show whether it was ahead
// at that time or has been set back since. If it has been set back, renewals with an
// earlier expiry would lose the lease to other processes, so only the store's clock can
// decide. If the claim took over a reservation that ends far in the future, the node ID
// is of no use until that reservation ends, even if the wall clock was right again when
// the claim was answered. The agent then treats the node ID as lost and, with Reacquire,
// claims another one. checkFloor reports whether the comparison had no answer.
func (a *Agent) checkFloor(ctx context.Context) (unanswered bool) {
	now := a.timeline.Now() // read first, so that a pause in between makes the wall clock seem right
	at := a.clock.Wall()
	a.mu.Lock()
	early := a.over == nil && a.tooEarly(at)
	a.mu.Unlock()
	if !early && now.Sub(at) <= a.cfg.timings().MaxSkew() {
		return false
	}
	wall, mono, c := a.compare(ctx)
	if c != right {
		return c == unknown
	}
	a.timeline.SetFloor(wall, mono)
	copied := a.timeline.Copied() // if so, nothing is released: a release would free milliseconds that the other copy may stamp
	a.mu.Lock()
	t := a.term
	early = !copied && a.over == nil && a.tooEarly(wall)
	var last time.Time
	if early {
		// Stamps that were made while the clock was ahead are after NotBefore, so the next
		// holder must begin after the last of these stamps (S1).
		last = a.timeline.Seal()
		copied = a.timeline.Copied() // the snapshot was made just before the fence
		a.loseNow(t, fmt.Errorf("%w: node %d of pool %q was claimed while this machine's clock was ahead, and is reserved for its last holder until %s",
			ErrLost, t.Lease.NodeID, a.cfg.Pool, protocol.Stamp(t.Lease.NotBefore)))
	}
	a.mu.Unlock()
	if early && !copied {
		_ = a.release(t, last)
	}
	return false
}

// confirm applies the result of a confirmed renewal.
func (a *Agent) confirm(t *tenure.Term, l protocol.Lease, at tenure.Attempt, c snowflake.Ceiling, e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over != nil { // stopped at the deadline while the answer came
		return
	}
	// Invariant: with Stop, no lease goes on after its deadline. While the machine was suspended,
	// the timer of the watchdog may have stood still.
	if a.cfg.OnExpiry == Stop && !t.Held(a.clock.Monotonic()) {
		a.expireNow(t)
		return
	}
	t.Confirmed(l, at.M0, at.Length)
	a.confirmedNow(t.Deadline == at.M0+a.cfg.TTL-a.cfg.Guard)
	a.timeline.Extend(t.Lease.ReservedUntil, t.IDDeadline)
	a.raiseNow(c)
	a.watch(t)
	a.metadata.tell()
	e.Kind, e.Lease, e.Err = EventRenewed, Lease(l), nil
	a.tellNow(e)
	if a.suspended && t.Held(a.clock.Monotonic()) {
		a.suspended, a.stepped = false, true
		e.Kind = EventResumed
		a.tellNow(e)
	}
}
