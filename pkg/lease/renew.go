package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// renewLimit is how long a renewal may take before another is tried: an answer
// that takes longer is worth less.
const renewLimit = time.Second

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
