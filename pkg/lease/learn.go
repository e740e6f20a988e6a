package lease

import (
	"context"
	"errors"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// a.pool is written only by Start, then by the renewal loop. An agent of a pool that
// is never widened reads the pool's item once, at its start.

// readPool reads the pool's item, with retries, for an agent without a node ID.
func (a *Agent) readPool(ctx context.Context) (protocol.PoolItem, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolItem, error) { return a.cfg.Store.PoolItem(ctx, a.cfg.Pool) })
}

// reread reads the pool's item again, and reports whether it was answered.
func (a *Agent) reread(ctx context.Context) bool {
	one, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	p, err := a.cfg.Store.PoolItem(one, a.cfg.Pool)
	if err != nil {
		if ctx.Err() == nil {
			a.unanswered(a.about(wholePool), err)
		}
		return false
	}
	a.learn(p)
	return true
}

// learn stores the pool's item, and passes a new width on to the generators before
// anything is reserved that needs it.
func (a *Agent) learn(p protocol.PoolItem) {
	known := len(a.pool.Eras)
	a.pool = p
	for _, era := range p.Eras[min(known, len(p.Eras)):] {
		if err := a.timeline.Widen(era); err != nil {
			a.lose(a.term, err) // its lease contradicts the pool's history
			return
		}
		a.emit(Event{Kind: EventWidened, Lease: a.about(wholePool)})
	}
}

// uncap reads the pool again when an open widening keeps this agent from reserving as
// much as it needs. If the widening is still open, the agent voids it: a dead widener
// stops nobody, and a live one begins again later.
func (a *Agent) uncap(ctx context.Context, now time.Time) {
	bites := func() bool {
		until := now.Add(a.cfg.Reserve)
		return !a.pool.Capped(until).Equal(until)
	}
	if !bites() || !a.reread(ctx) || !bites() || a.denied {
		return
	}
	one, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	res, err := a.cfg.Store.WritePool(one, protocol.VoidWiden{Pool: a.cfg.Pool, Try: a.pool.Widening.Try})
	switch {
	case err == nil && res.Pool != nil:
		a.learn(*res.Pool)
	case errors.Is(err, ErrAccess):
		a.mayNot("end a widening that nobody finishes", err)
	case err != nil && ctx.Err() == nil:
		a.unanswered(a.about(wholePool), err)
	}
}
