package lease

import (
	"context"
	"errors"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// naps is what an on-demand agent has and one with a loop has not.
type naps struct {
	// Of the flight, or of Close after it.
	unsettled *unsettled // a session that may hold a node ID, and is not bound
	trouble   error      // why the last renewal had no answer

	// Guarded by Agent.mu.
	sending, sent reading // before the last renewal was sent; before the confirmed attempt was
	outside       reading // of the last Witness
	patience      time.Duration
}

// unsettled is a claim whose outcome may be unknown. It is recorded before it is sent,
// so that whatever ends its sender leaves it behind.
type unsettled struct {
	node    int
	session string
	first   time.Duration // when the session sent its first, on the monotonic clock
	givenUp bool          // a release was sent, and may arrive at any time
}

// reading is what the clocks said at a moment.
type reading struct {
	mono    time.Duration
	wall    time.Time
	outside time.Time // at least, by the last Witness; zero without one
}

// pending returns the claim that must be settled before another node ID is tried.
func (a *Agent) pending() *unsettled {
	if a.napping == nil {
		return nil
	}
	return a.napping.unsettled
}

// record notes a claim before it is sent. first is when its session sent its first
// attempt, and doubt reports whether that one may have landed.
func (a *Agent) record(node int, session string, now time.Duration) (first time.Duration, doubt bool) {
	n := a.napping
	if n == nil {
		return now, false
	}
	if u := n.unsettled; u != nil && u.session == session {
		return u.first, true
	}
	n.unsettled = &unsettled{node: node, session: session, first: now}
	return now, false
}

// settled notes that the recorded claim holds nothing, or is bound.
func (a *Agent) settled() {
	if a.napping != nil {
		a.napping.unsettled = nil
	}
}

// boundNow notes when the claim of t was sent; the caller holds mu.
func (a *Agent) boundNow(t *tenure.Term) {
	if a.napping == nil {
		return
	}
	a.settled()
	// The clocks as that claim read them: it asked for an expiry of its wall clock and
	// TTL. Where it was the one before an answer that was lost, so is its expiry.
	short := max(t.Lease.ExpiresAt.Add(a.cfg.ClaimGuard).Sub(t.Lease.ReservedUntil), 0)
	mono := t.Deadline + a.cfg.Guard - a.cfg.TTL + short
	a.napping.sent = a.outsideAt(reading{mono: mono, wall: t.Lease.ExpiresAt.Add(-a.cfg.TTL)})
	a.napping.patience = 0
}

// attemptNow reads the clocks before a renewal is sent; the caller holds mu.
func (a *Agent) attemptNow() {
	if a.napping != nil {
		wall := a.clock.Wall()
		a.napping.sending = a.outsideAt(reading{mono: a.clock.Monotonic(), wall: wall})
	}
}

// confirmedNow notes that the last renewal was confirmed, and whether the deadline is
// its own, not one before it; the caller holds mu.
func (a *Agent) confirmedNow(own bool) {
	if a.napping != nil && own {
		a.napping.sent, a.napping.patience = a.napping.sending, 0
	}
}

// refusedBy notes why a renewal had no answer.
func (a *Agent) refusedBy(err error) {
	if a.napping != nil {
		a.napping.trouble = err
	}
}

// witness takes the reading of an outside clock over.
func (a *Agent) witness(r reading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.napping.outside = r
}

// outsideAt adds what the outside clock said at least at a reading; the caller holds mu.
func (a *Agent) outsideAt(r reading) reading {
	if last := a.napping.outside; !last.wall.IsZero() {
		r.outside = last.wall.Add(r.mono - last.mono)
	}
	return r
}

// leftNow returns the time until the deadline of an on-demand agent; the caller holds
// mu. Time has passed since the confirmed attempt was sent as the clock says that says
// most (S2): a paused machine may count the pause by one of them only.
func (a *Agent) leftNow() time.Duration {
	sent, now := a.napping.sent, a.outsideAt(reading{mono: a.clock.Monotonic(), wall: a.clock.Wall()})
	passed := max(now.mono-sent.mono, now.wall.Sub(sent.wall))
	if !sent.outside.IsZero() && !now.outside.IsZero() {
		passed = max(passed, now.outside.Sub(sent.outside))
	}
	return a.term.Deadline - sent.mono - passed
}

// bound reports whether the agent ever had a node ID.
func (a *Agent) bound() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term != nil
}

// rested reports whether a use needs no request: at least a third of the lease is left,
// or a renewal just had no answer and the lease is good.
func (a *Agent) rested() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.term == nil || a.over != nil || a.timeline.Copied() || a.earlyBy() > 0 {
		return false
	}
	left := a.leftNow()
	return left > 0 && (left+a.cfg.Guard >= a.cfg.TTL/3 || a.clock.Monotonic() < a.napping.patience)
}

// left is leftNow for a caller that does not hold mu.
func (a *Agent) left() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leftNow()
}

// wakeUp finds out whether the machine was copied in its sleep. What was leased then is
// the other copy's as well, also a claim that was sent and never answered.
func (a *Agent) wakeUp() {
	a.denied = false // permissions may have been repaired
	if !a.timeline.Copied() {
		return
	}
	if a.bound() {
		a.lose(a.term, a.copied())
	}
	a.timeline.Seal()
	a.settled()
}

// keep renews until it is confirmed. It returns false and no error when the node ID is
// lost, and an error when nothing was confirmed before ctx ended. A lease that is still
// good is kept without an answer: the next use asks again.
func (a *Agent) keep(ctx context.Context) (kept bool, err error) {
	for n := 0; ; n++ {
		a.napping.trouble = nil
		confirmed := a.renew(ctx)
		if a.current() != nil {
			return false, nil
		}
		again := false
		select {
		case <-a.nudged: // it reserved less than it should
			again = true
		default:
		}
		if left := a.left(); left > 0 && !(confirmed && again) {
			if !confirmed {
				a.beRested(min(left/2, a.cfg.TTL/30))
			}
			return true, nil
		}
		if err := a.napping.trouble; err != nil && permanent(err) {
			return false, err
		}
		if cause := protocol.Pause(ctx, protocol.Backoff(n)); cause != nil {
			return false, errors.Join(a.napping.trouble, cause)
		}
	}
}

// beRested lets uses go on without a renewal for a while, after one without an answer.
func (a *Agent) beRested(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.napping.patience = a.clock.Monotonic() + d
}
