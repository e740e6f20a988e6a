package lease

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// What an agent knows of its pool. Only who starts the agent, and then its loop,
// reads the pool's item and changes a.pool. An agent of a pool that is never
// widened reads it once, at its start.

// readPool reads the pool's item, for who has no number.
func (a *Agent) readPool(ctx context.Context) (protocol.PoolItem, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolItem, error) { return a.cfg.Store.PoolItem(ctx, a.cfg.Pool) })
}

// reread reads the pool's item again, and tells whether it was answered.
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

// learn takes the pool's item over, and tells the generators of a new width
// before anything is reserved that needs it.
func (a *Agent) learn(p protocol.PoolItem) {
	known := len(a.pool.Eras)
	a.pool = p
	for _, era := range p.Eras[min(known, len(p.Eras)):] {
		if err := a.timeline.Widen(era); err != nil {
			a.lose(err) // what it holds and the pool's history do not go together
			return
		}
		a.emit(Event{Kind: EventWidened, Lease: a.about(wholePool)})
	}
}

// uncap looks again when a widening that is open keeps this agent from reserving
// as much as it needs. If it is open still, the agent makes it void: a widener that
// died stops nobody, one that lives begins again, later.
func (a *Agent) uncap(ctx context.Context, now time.Time) {
	bites := func() bool {
		until := now.Add(a.cfg.Reserve)
		return !a.pool.Capped(until).Equal(until)
	}
	if !bites() || !a.reread(ctx) || !bites() {
		return
	}
	one, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	res, err := a.cfg.Store.WritePool(one, protocol.VoidWiden{Pool: a.cfg.Pool, Try: a.pool.Widening.Try})
	switch {
	case err == nil && res.Pool != nil:
		a.learn(*res.Pool)
	case err != nil && ctx.Err() == nil:
		a.unanswered(a.about(wholePool), err)
	}
}
