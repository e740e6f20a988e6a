package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

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
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: err})
		if protocol.Pause(ctx, protocol.Backoff(n)) != nil {
			return false
		}
	}
}
