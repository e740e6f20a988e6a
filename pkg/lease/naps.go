package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// naps is the additional state of an on-demand agent. Agents with a renewal loop do not
// have this state.
type naps struct {
	// These fields are used by the flight, or by Close after the flight has ended.
	unsettled *unsettled // a claim that may hold a node ID, and is not bound
	trouble   error      // the reason why the last renewal had no answer

	// These fields are guarded by Agent.mu.
	sending, sent reading       // the clocks just before the last attempt, and just before the confirmed attempt, were sent
	seen          reading       // the clocks when they were last compared
	passed        time.Duration // the time that passed from sent to seen
	outside       reading       // the clocks at the last call of Witness
	patience      time.Duration // no request until this much of the lease is left; 0 after a confirmation
}

// unsettled is a claim whose outcome may be unknown. It is recorded before it is sent, so
// that the record exists even if the goroutine that sends the claim ends unexpectedly.
type unsettled struct {
	node    int
	session string
	first   time.Duration // when the session sent its first attempt, on the monotonic clock
	outside time.Time     // the outside clock at the time first; see reading
	givenUp bool          // a release was sent, and may arrive at any time
}

// reading is a reading of all clocks at one time.
type reading struct {
	mono    time.Duration
	wall    time.Time
	outside time.Time // a lower bound, computed from the last call of Witness; zero if there was none
}

// pending returns the claim that must be settled before another node ID is tried.
func (a *Agent) pending() *unsettled {
	if a.napping == nil {
		return nil
	}
	return a.napping.unsettled
}

// record records a claim before it is sent. first is when its session sent its first
// attempt, and doubt reports whether an earlier attempt of the session may have
// succeeded.
func (a *Agent) record(node int, session string, now time.Duration) (first time.Duration, doubt bool) {
	n := a.napping
	if n == nil {
		return now, false
	}
	if u := n.unsettled; u != nil && u.session == session {
		return u.first, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n.unsettled = &unsettled{node: node, session: session, first: now, outside: a.outsideAt(reading{mono: now}).outside}
	return now, false
}

// settled removes the record of a claim that holds no node ID, or whose span is bound.
func (a *Agent) settled() {
	if a.napping != nil {
		a.napping.unsettled = nil
	}
}

// boundNow records when the claim of t was sent; the caller holds mu.
func (a *Agent) boundNow(t *tenure.Term) {
	if a.napping == nil {
		return
	}
	// These are the clock readings of the confirmed attempt, which may be an earlier attempt
	// whose answer was lost. They follow from the item, since each attempt requests an
	// expiry of its wall clock plus TTL.
	short := max(t.Lease.ExpiresAt.Add(a.cfg.ClaimGuard).Sub(t.Lease.ReservedUntil), 0)
	mono := t.Deadline + a.cfg.Guard - a.cfg.TTL + short
	// The outside clock was read only before the first and before the last attempt.
	outside := a.napping.sending.outside
	if u := a.pending(); u != nil && mono < u.first+time.Millisecond {
		outside = u.outside
	}
	a.settled()
	a.sentAt(reading{mono: mono, wall: t.Lease.ExpiresAt.Add(-a.cfg.TTL), outside: outside})
}

// sentAt records when the confirmed attempt was sent; the caller holds mu.
func (a *Agent) sentAt(r reading) {
	a.napping.sent, a.napping.seen, a.napping.passed, a.napping.patience = r, r, 0, 0
}

// attemptNow reads the clocks before a claim or a renewal is sent; the caller holds mu.
func (a *Agent) attemptNow() {
	if a.napping != nil {
		wall := a.clock.Wall()
		a.napping.sending = a.outsideAt(reading{mono: a.clock.Monotonic(), wall: wall})
	}
}

// confirmedNow records that the last renewal was confirmed. own reports whether the
// deadline was computed from that renewal and not from an earlier one. The caller holds
// mu.
func (a *Agent) confirmedNow(own bool) {
	if a.napping != nil && own {
		a.sentAt(a.napping.sending)
	}
}

// refusedBy records why a renewal was not answered.
func (a *Agent) refusedBy(err error) {
	if a.napping != nil {
		a.napping.trouble = err
	}
}

// witness stores the reading of an outside clock.
func (a *Agent) witness(r reading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.napping.outside = r
	if a.term != nil {
		a.leftNow() // adds the time that has passed
	}
}

// outsideAt adds a lower bound of the outside clock to a reading; the caller holds mu.
func (a *Agent) outsideAt(r reading) reading {
	if last := a.napping.outside; !last.wall.IsZero() {
		r.outside = last.wall.Add(r.mono - last.mono)
	}
	return r
}

// lookEvery is the shortest time between two comparisons of the clocks. Each comparison
// adds the small errors of the clock readings to the passed time.
const lookEvery = time.Second

// leftNow returns the time until the deadline of an on-demand agent; the caller holds mu.
// The time since the confirmed attempt was sent is the largest time that any clock shows
// (S2), since after a pause of the machine, perhaps only one clock includes the pause.
// The next pause may be included only by another clock, or a clock may be set back. So
// the passed time is added up from comparison to comparison.
func (a *Agent) leftNow() time.Duration {
	n, now := a.napping, a.outsideAt(reading{mono: a.clock.Monotonic(), wall: a.clock.Wall()})
	since := min(now.since(n.seen), 2*a.cfg.TTL) // limited so that the sums do not overflow
	left := a.term.Deadline - n.sent.mono - n.passed - since
	if since >= lookEvery || now.wall.Sub(n.seen.wall) <= -lookEvery { // set back: count from its new reading
		n.passed, n.seen = min(n.passed+since, 2*a.cfg.TTL), now
	}
	return left
}

// since returns the largest time that any clock shows between an earlier reading and r.
func (r reading) since(seen reading) time.Duration {
	passed := max(r.mono-seen.mono, r.wall.Sub(seen.wall))
	if !seen.outside.IsZero() && !r.outside.IsZero() {
		passed = max(passed, r.outside.Sub(seen.outside))
	}
	return passed
}

// bound reports whether the agent ever had a node ID.
func (a *Agent) bound() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term != nil
}

// rested reports whether a use needs no request: at least a third of the lease is left,
// or the lease is still good and a recent renewal was not answered.
func (a *Agent) rested() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.usable() {
		return false
	}
	left, patience := a.leftNow(), a.napping.patience
	return left > 0 && (a.isFresh(left) || patience > 0 && left > patience)
}

// good reports whether the node ID may be used now.
func (a *Agent) good() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.usable() && a.leftNow() > 0
}

// isOver reports whether the lease of t may no longer be relied on.
//
// Invariant (liveness): each clock counts, as in leftNow. After a sleep that only the wall clock
// shows, an on-demand agent would otherwise try to renew an item that is broken at each use.
func (a *Agent) isOver(t *tenure.Term) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !t.Held(a.clock.Monotonic()) || a.napping != nil && a.leftNow() <= 0
}

// usable reports whether the node ID may be used if there is time left; the caller holds
// mu.
func (a *Agent) usable() bool {
	return a.term != nil && a.over == nil && !a.timeline.Copied() && a.earlyBy() <= 0
}

// isFresh reports whether left is at least a third of a lease.
func (a *Agent) isFresh(left time.Duration) bool { return left > 0 && left+a.cfg.Guard >= a.cfg.TTL/3 }

// left is leftNow for a caller that does not hold mu.
func (a *Agent) left() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leftNow()
}

// wakeUp finds out whether the machine was copied while it slept. If so, another copy may
// have the same lease and the same unanswered claim, so the agent gives up both the lease
// and the claim.
func (a *Agent) wakeUp() {
	if !a.timeline.Copied() {
		return
	}
	if a.bound() {
		a.lose(a.term, a.copied())
	}
	a.timeline.Seal()
	a.settled()
}

// keep renews until a renewal is confirmed, or the node ID is lost. If the lease is still
// good, keep returns without a confirmation, and a later use tries again. An error means
// that no renewal was confirmed before ctx ended, or that retries cannot help.
func (a *Agent) keep(ctx context.Context) error {
	for n := 0; ; n++ {
		// Invariant: a restored process renews nothing, also while it retries: its renewal would
		// take the lease from the original. Then fly ends the lease.
		if a.timeline.Copied() {
			return nil
		}
		a.napping.trouble = nil
		confirmed := a.renew(ctx)
		if a.current() != nil {
			return nil
		}
		again := false
		select {
		case <-a.nudged: // the renewal reserved less than it should have
			again = true
		default:
		}
		if a.left() > 0 && !(confirmed && again) {
			return nil
		}
		if err := a.napping.trouble; err != nil && permanent(err) {
			return err
		}
		if cause := protocol.Pause(ctx, protocol.Backoff(n)); cause != nil {
			return errors.Join(a.napping.trouble, cause)
		}
	}
}

// begin waits until the last holder's span has passed, since the new span begins after
// that one. It gives up a node ID that was claimed with a clock that was wrong and is right
// now.
func (a *Agent) begin(ctx context.Context) error {
	for left := a.early(); left > 0; left = a.early() {
		// Invariant (liveness): no call fails because of a clock that is within the tolerance. If
		// the time left is longer, the clock was too far ahead at the claim, or has been set back
		// since.
		if left > a.latestStart() {
			unanswered := a.checkFloor(ctx)
			if over := a.current(); over != nil {
				return over
			}
			if unanswered {
				return fmt.Errorf("%w: by this machine's clock, node %d of pool %q belongs to its last holder for another %v, and the store did not answer whether the clock is right",
					ErrSuspended, a.NodeID(), a.cfg.Pool, left.Round(time.Millisecond))
			}
			return fmt.Errorf("%w: by this machine's clock, which says %s, node %d of pool %q belongs to its last holder for another %v: repair the clock",
				ErrClockBehind, protocol.Stamp(a.clock.Wall()), a.NodeID(), a.cfg.Pool, left.Round(time.Millisecond))
		}
		if err := protocol.Pause(ctx, left); err != nil {
			return err
		}
	}
	return nil
}

// beRested makes uses send no request for a while, after a renewal that was not answered,
// or that could not reserve enough because of an open widening.
func (a *Agent) beRested() {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.leftNow()
	a.napping.patience = left - min(left/2, a.cfg.TTL/30)
}
