package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// renewLimit is how long a renewal may take before another is tried: an answer
// that takes longer is worth less.
const renewLimit = time.Second

// renew sends one renewal and reports whether it was confirmed.
func (a *Agent) renew(ctx context.Context) bool {
	a.uncap(ctx, a.timeline.Now())
	a.announce(ctx)
	a.mu.Lock()
	// The number, both clocks and what is asked for are taken together: m0 before
	// the request is sent, w0 from the clock that generators stamp from, so that a
	// wall clock that steps back never asks for an earlier expiry.
	m0 := a.clock.Monotonic()
	t := a.term
	w0 := a.timeline.Now()
	at, ok := t.attempt(m0, w0, a.pool)
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
			a.emitNow(e)
		}
		return false
	}
	if !res.Applied {
		switch t.refused(at, res.Lease) {
		case landed:
		case relayouted:
			if a.reread(ctx) && res.Lease.WidenTry > a.pool.Widening.Try {
				a.unanswered(t.lease, fmt.Errorf("lease: node %d was marked for widening %d, and its pool knows of %d", t.lease.NodeID, res.Lease.WidenTry, a.pool.Widening.Try))
			}
			return false // and tried again
		case cloned:
			a.lose(t, fmt.Errorf("%w: node %d of pool %q was renewed by a copy of this process (a cloned machine, a forked process)", ErrLost, t.lease.NodeID, a.cfg.Pool))
			a.expose(ctx, t, res.Lease)
			return false
		case taken:
			a.lose(t, fmt.Errorf("%w: node %d of pool %q %s", ErrLost, t.lease.NodeID, a.cfg.Pool, whose(res.Lease)))
			return false
		}
	}
	a.confirm(t, *res.Lease, at.m0, t.ceiling(w0, m0), e)
	if at.again {
		a.RenewNow()
	}
	a.checkFloor(ctx)
	return true
}

// checkFloor lets the clock of renewals come down to the wall clock where the claim
// was made while that was ahead. The wall clock alone cannot say whether it was wrong
// then or has been set back since: renewals that asked for less would lose the lease to
// others in the latter case, so it takes the store's clock to tell.
func (a *Agent) checkFloor(ctx context.Context) {
	before := a.clock.Wall()
	if a.timeline.Now().Sub(before) <= a.cfg.maxSkew() || !a.reread(ctx) || a.pool.ServerTime.IsZero() {
		return
	}
	mono := a.clock.Monotonic()
	after := a.clock.Wall()
	// A pause in between would let any clock pass.
	if after.Sub(before) <= 2*renewLimit && protocol.CheckSkew(before, after, a.pool.ServerTime, a.cfg.maxSkew()) == nil {
		a.timeline.SetFloor(after, mono)
	}
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
func (a *Agent) confirm(t *term, l Lease, m0 time.Duration, c snowflake.Ceiling, e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over != nil { // stopped at the deadline while the answer came
		return
	}
	t.confirmed(l, m0)
	a.timeline.Extend(t.lease.ReservedUntil, t.idDeadline)
	a.timeline.SetCeiling(c)
	a.watch(t)
	a.metadata.tell()
	e.Kind, e.Lease, e.Err = EventRenewed, l, nil
	a.tellNow(e)
	if a.suspended && t.held(a.clock.Monotonic()) {
		a.suspended = false
		e.Kind = EventResumed
		a.tellNow(e)
	}
}
