package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// errExpired is the loss by OnExpiry: the number may still be ours in the table.
var errExpired = fmt.Errorf("%w: the deadline passed and OnExpiry is Stop", ErrLost)

// renewLimit is how long a renewal may take before another is tried: an answer
// that takes longer is worth less.
const renewLimit = time.Second

// loop renews until the lease is lost or the agent closed. It is the only one
// that sends renewals.
func (a *Agent) loop(ctx context.Context) {
	defer close(a.stopped)
	failures := 0
	for {
		wait := jitter(a.cfg.RenewEvery)
		if failures > 0 {
			wait = protocol.Backoff(failures - 1)
		}
		if protocol.Pause(ctx, wait) != nil {
			return
		}
		if err := a.current(); err == nil {
			failures++
			if a.renew(ctx) {
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

// jitter spreads a fleet's renewals: 10 % more or less.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// current is why the present term ended, nil while it goes on.
func (a *Agent) current() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// renew sends one renewal and reports whether it was confirmed.
func (a *Agent) renew(ctx context.Context) bool {
	a.uncap(ctx, a.timeline.Now())
	a.announce()
	a.mu.Lock()
	// The number, both clocks and what is asked for are taken together: m0 before
	// the request is sent, w0 from the clock that generators stamp from, so that a
	// wall clock that steps back never asks for an earlier expiry.
	m0 := a.clock.Monotonic()
	t := a.term
	at, ok := t.attempt(m0, a.timeline.Now(), a.pool)
	if !ok {
		a.mu.Unlock()
		a.unanswered(t.lease, fmt.Errorf("lease: pool %q changes its width, and node %d waits for that with its renewal", a.cfg.Pool, t.lease.NodeID))
		return false
	}
	if a.metadata.changed {
		at.write.Metadata = a.metadata.all
	}
	limit := renewLimit
	if left := t.deadline - m0; left > 0 {
		limit = min(limit, left)
	}
	a.mu.Unlock()

	one, cancel := context.WithTimeout(ctx, limit)
	res, err := a.cfg.Store.Write(one, at.write)
	cancel()
	e := Event{Took: a.clock.Monotonic() - m0, Lease: t.lease, Err: err}
	if err != nil {
		if ctx.Err() == nil {
			e.Kind, e.Reason = EventUnanswered, protocol.Reason(err)
			a.emit(a.asOfNow(e))
		}
		return false
	}
	if !res.Applied {
		switch t.refused(at, res.Lease) {
		case landed:
		case relayouted:
			if a.reread(ctx) && res.Lease.Layout > a.pool.Widening.Try {
				a.unanswered(t.lease, fmt.Errorf("lease: node %d was marked for widening %d, and its pool knows of %d", t.lease.NodeID, res.Lease.Layout, a.pool.Widening.Try))
			}
			return false // and tried again
		case cloned:
			a.lose(fmt.Errorf("%w: node %d of pool %q was renewed by a copy of this process (a cloned machine, a forked process)", ErrLost, t.lease.NodeID, a.cfg.Pool))
			return false
		case taken:
			a.lose(fmt.Errorf("%w: node %d of pool %q %s", ErrLost, t.lease.NodeID, a.cfg.Pool, whose(res.Lease)))
			return false
		}
	}
	a.confirm(t, *res.Lease, at.m0, e)
	return true
}

// whose says what became of a number.
func whose(cur *Lease) string {
	switch {
	case cur == nil:
		return "has no item any more: someone deleted it"
	case cur.Holder == "":
		return "was freed by the reaper, by an operator or with a restored table"
	}
	return fmt.Sprintf("is held by %s since version %d", cur.Task, cur.Version)
}

// confirm takes a confirmed renewal over.
func (a *Agent) confirm(t *term, l Lease, m0 time.Duration, e Event) {
	a.mu.Lock()
	if a.over != nil { // stopped at the deadline while the answer came
		a.mu.Unlock()
		return
	}
	t.confirmed(l, m0)
	a.timeline.Extend(t.lease.ReservedUntil, t.idDeadline)
	resumed := a.suspended && t.held(a.clock.Monotonic())
	if resumed {
		a.suspended = false
	}
	a.watch()
	a.metadata.tell()
	a.mu.Unlock()
	e.Kind, e.Lease, e.Err = EventRenewed, l, nil
	a.emit(a.asOfNow(e))
	if resumed {
		e.Kind = EventResumed
		a.emit(a.asOfNow(e))
	}
}

// watch sets the watchdog to the deadline; the caller holds mu. It is apart from
// the loop, so that a request that hangs does not hide that time is up. It only
// announces: every use checks for itself.
func (a *Agent) watch() {
	left := max(a.term.deadline-a.clock.Monotonic(), 0)
	if a.watchdog == nil {
		a.watchdog = time.AfterFunc(left, a.bark)
		return
	}
	a.watchdog.Reset(left)
}

// bark announces that the deadline has passed.
func (a *Agent) bark() {
	a.mu.Lock()
	if a.over != nil || a.suspended {
		a.mu.Unlock()
		return
	}
	if a.term.held(a.clock.Monotonic()) {
		a.watch()
		a.mu.Unlock()
		return
	}
	a.suspended = true
	e := Event{Kind: EventSuspended, Lease: a.term.lease}
	a.mu.Unlock()
	a.emit(a.asOfNow(e))
	if a.cfg.OnExpiry == Stop {
		a.lose(errExpired)
	}
}

// lose ends the term for good: fence, then say so.
func (a *Agent) lose(err error) {
	a.mu.Lock()
	if a.over != nil {
		a.mu.Unlock()
		return
	}
	a.over = err
	a.timeline.Seal()
	e := Event{Kind: EventLost, Lease: a.term.lease, Err: err}
	a.mu.Unlock()
	a.emit(a.asOfNow(e))
	if a.cfg.OnLost == StopOnLoss {
		a.end(err)
	}
}

// replace takes another number after a loss, if that is the policy, and tells
// whether the loop goes on.
func (a *Agent) replace(ctx context.Context, lost error) bool {
	if a.cfg.OnLost != Reacquire {
		return false
	}
	const forever = time.Duration(1<<63 - 1)
	for n := 0; ; n++ {
		err := a.take(ctx, forever)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if permanent(err) {
			a.end(errors.Join(lost, err))
			return false
		}
		a.emit(Event{Kind: EventWarning, Lease: Lease{Pool: a.cfg.Pool, NodeID: -1}, Err: err})
		if protocol.Pause(ctx, protocol.Backoff(n)) != nil {
			return false
		}
	}
}

// asOfNow adds to an event what is true at this moment.
func (a *Agent) asOfNow(e Event) Event {
	e.IDs = a.timeline.Stats()
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Left = a.term.deadline - a.clock.Monotonic()
	e.ClockError = a.ecs.clockError
	return e
}
