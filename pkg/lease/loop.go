package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
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
		// A copy leaves the lease as it is: the original may live on with it.
		if a.timeline.Copied() {
			a.lose(a.term, a.copied())
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

// rest waits until the next renewal is due, or requested by RenewNow. After a failure
// the next one is due soon anyway: RenewNow does not shorten the backoff.
func (a *Agent) rest(ctx context.Context, failures int) error {
	if failures > 0 {
		return protocol.Pause(ctx, a.askAgainIn(failures-1))
	}
	due := time.NewTimer(jitter(a.cfg.RenewEvery))
	defer due.Stop()
	select {
	case <-due.C:
	case <-a.nudged:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// askAgainIn returns the pause after the nth renewal without an answer, from 0.
func (a *Agent) askAgainIn(n int) time.Duration {
	now := a.timeline.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.term.held(a.clock.Monotonic()) {
		return protocol.Backoff(n)
	}
	least, most := suspendedPause(a.term.lease.ReservedUntil.Sub(now))
	return least + rand.N(most-least)
}

// suspendedPause bounds the pauses of a suspended holder whose milliseconds stay
// reserved for left. Nobody takes its node ID in that time, so a fleet that waits for
// its table need not ask all at once; it asks more often as left shrinks. Requests are
// one to five seconds apart.
func suspendedPause(left time.Duration) (least, most time.Duration) {
	return time.Second, max(min(5*time.Second, left/20), 2*time.Second)
}

// jitter spreads a fleet's renewals: 10 % more or less.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// current returns why the present term ended, nil while it goes on.
func (a *Agent) current() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// lose ends a term for good: it fences, then announces the loss. It names the term,
// since late news of a finished term must not end the next one.
func (a *Agent) lose(t *term, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loseNow(t, err)
}

// loseNow is lose for a caller that holds mu.
func (a *Agent) loseNow(t *term, err error) {
	if a.term != t || a.over != nil {
		return
	}
	a.over = err
	a.timeline.Seal()
	a.tellNow(Event{Kind: EventLost, Lease: t.lease, Err: err})
	if a.cfg.OnLost == StopOnLoss {
		a.endNow(err)
	}
}

// replace claims another node ID after a loss, if that is the policy, and reports
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
		if fatal(err) {
			a.end(errors.Join(lost, err))
			return false
		}
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: err})
		if protocol.Pause(ctx, protocol.Backoff(n)) != nil {
			return false
		}
	}
}
