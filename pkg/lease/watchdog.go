package lease

import (
	"fmt"
	"time"
)

// errExpired is the loss by OnExpiry: the number may still be ours in the table.
var errExpired = fmt.Errorf("%w: the deadline passed and OnExpiry is Stop", ErrLost)

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
