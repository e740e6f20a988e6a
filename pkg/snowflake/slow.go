package snowflake

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// slow is Next for all but the common case: a new tick, a used up one, a fence, a
// clock in trouble. It holds no ticket. left is how long the call may still wait.
func (g *Generator) slow(ctx context.Context, left time.Duration) (ID, error) {
	for {
		tm, ticket, n, err := g.reserve(1)
		if err != nil {
			return 0, g.refuse(err)
		}
		if n == 1 {
			return tm.id(ticket), nil
		}
		// The tick is used up, and state is where the next ticket would come from.
		// If that is in the next tick, draw it: a place in the queue. Never further
		// ahead: callers who give up would push the state away from the clock.
		mono := g.t.mono()
		state := tm.state.Load()
		if state >= sealed {
			continue
		}
		if ctx != nil && ctx.Err() != nil {
			return 0, g.refuse(ctx.Err())
		}
		next := tm.tickOf(state + 1)
		if next <= tm.begun(mono)+1 {
			return g.settle(ctx, tm, tm.state.Add(1), left)
		}
		if left, err = g.pause(ctx, tm, tm.until(next-1, mono), left); err != nil {
			return 0, g.refuse(err)
		}
	}
}

// settle holds a ticket and hands its ID out when its tick has begun. While
// saturated, each 64th ticket comes by here too (term.mark): to look at the wall
// clock, for ticks then begin with no one waiting, and to let others have a turn.
func (g *Generator) settle(ctx context.Context, tm *term, ticket uint64, left time.Duration) (ID, error) {
	tick := tm.tickOf(ticket)
	for {
		// In sustained saturation ticks begin here and never in reserve, so the
		// wall clock must be looked at here too. First the clocks, then the
		// deadline: see seal.
		mono, wall := g.t.observe(tm)
		if tick >= tm.ends.Load() && ticket < sealed { // the next era's: of another width
			g.t.turn(tm)
			g.t.counters.skipped.Add(1)
			return g.slow(ctx, left)
		}
		if mono >= tm.deadline.Load() || wall >= tm.wallEnd.Load() || ticket >= tm.limit.Load() {
			over, last, err := g.t.verdict(tm)
			if over && tick <= last && ticket < sealed {
				return tm.id(ticket), nil
			}
			if ticket < sealed {
				g.t.counters.skipped.Add(1)
			}
			if err == nil {
				return g.slow(ctx, left) // the ticket is void; there is another term
			}
			return 0, g.refuse(g.endOf(tm, ticket, err))
		}
		wait := tm.until(tick, mono)
		if wait <= 0 {
			if ticket&tm.mark == 0 {
				runtime.Gosched()
			}
			return tm.id(ticket), nil
		}
		if tm.lag.Load() != g.maxLag {
			tm.lag.Store(g.maxLag) // saturated: let those who oversleep catch up
		}
		var err error
		if left, err = g.pause(ctx, tm, wait, left); err != nil {
			g.t.counters.skipped.Add(1)
			return 0, g.refuse(err)
		}
	}
}

// pause waits d or less, and gives what is left of the call's patience. What
// counts is how long a call asked to sleep: an injected clock may stand still.
func (g *Generator) pause(ctx context.Context, tm *term, d, left time.Duration) (time.Duration, error) {
	if d > left {
		// More than the queue ever is: it is the clock that is behind.
		if d > 2*g.layout.Tick {
			return left, &ClockError{Behind: d}
		}
		return left, ErrBusy
	}
	g.t.counters.waits.Add(1)
	g.t.wait(d)
	if ctx != nil && ctx.Err() != nil {
		if d > 2*g.layout.Tick {
			return left, fmt.Errorf("%w (%w)", ctx.Err(), &ClockError{Behind: d})
		}
		return left, ctx.Err()
	}
	return left - min(d, maxSleep), nil
}
