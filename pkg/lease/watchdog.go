package lease

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/tenure"
)

// errExpired is the reason of a loss that the policy Stop (Config.OnExpiry) causes. In
// the table, this agent may still hold the node ID.
var errExpired = fmt.Errorf("%w: no renewal was confirmed before the deadline", ErrLost)

// errGivenUp follows errExpired once the node ID was released.
var errGivenUp = fmt.Errorf("%w: no renewal was confirmed before the deadline, and the node ID was released", ErrLost)

// watch sets the watchdog to t's deadline; the caller holds mu. The watchdog runs outside
// the loop, so that the deadline is noticed even if a request hangs. It only announces
// the suspension, since every use of the lease checks the deadline itself.
func (a *Agent) watch(t *tenure.Term) {
	if a.napping != nil { // no timer while the process sleeps
		return
	}
	if a.watchdog != nil {
		a.watchdog.Stop()
	}
	left := max(t.Deadline-a.clock.Monotonic(), 0)
	a.watchdog = time.AfterFunc(left, func() { a.bark(t) })
}

// bark announces that the deadline of t has passed. When it runs, a renewal of t may
// already have been confirmed, or t may have been replaced.
func (a *Agent) bark(t *tenure.Term) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.term != t || a.over != nil || a.suspended:
		return
	case t.Held(a.clock.Monotonic()):
		a.watch(t)
		return
	}
	a.suspended = true
	a.tellNow(Event{Kind: EventSuspended, Lease: Lease(t.Lease)})
	if a.cfg.OnExpiry == Stop {
		a.expireNow(t)
	}
}

// expireNow ends the term t at its deadline, for the policy Stop; the caller holds mu.
func (a *Agent) expireNow(t *tenure.Term) {
	err := errExpired
	// Invariant: a restore is the reason of the loss even after the deadline. Close releases a
	// node ID that expired, which would free milliseconds that the original may stamp (S1). The
	// restore is looked for after the fence, since it may happen just before it, and before
	// loseNow, which forgets it.
	a.timeline.Seal()
	if a.timeline.Copied() {
		err = a.copied()
	}
	a.loseNow(t, err)
}
