package lease

import (
	"fmt"
	"time"
)

// errExpired is the loss by OnExpiry: the node ID may still be ours in the table.
var errExpired = fmt.Errorf("%w: no renewal was confirmed before the deadline", ErrLost)

// watch sets the watchdog to t's deadline; the caller holds mu. The watchdog runs
// outside the loop, so that a hanging request does not hide the deadline. It only
// announces: every use checks for itself.
func (a *Agent) watch(t *term) {
	if a.watchdog != nil {
		a.watchdog.Stop()
	}
	left := max(t.deadline-a.clock.Monotonic(), 0)
	a.watchdog = time.AfterFunc(left, func() { a.bark(t) })
}

// bark announces that the deadline of t has passed. It may come late: t may have been
// confirmed, or replaced, since.
func (a *Agent) bark(t *term) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.term != t || a.over != nil || a.suspended:
		return
	case t.held(a.clock.Monotonic()):
		a.watch(t)
		return
	}
	a.suspended = true
	a.tellNow(Event{Kind: EventSuspended, Lease: t.lease})
	if a.cfg.OnExpiry == Stop {
		a.loseNow(t, errExpired)
	}
}
