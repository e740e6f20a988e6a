package snowflake

import (
	"math/rand/v2"
	"time"
)

// reserve draws up to want tickets, from first on, all of which may be stamped
// now. n is 0 when there are none yet. It never waits. The error is ErrFenced,
// ErrClosed, ErrTimeOverflow or, before the epoch, a *ClockError.
func (g *Generator) reserve(want uint64) (tm *term, first, n uint64, err error) {
	for {
		tm = g.t.term.Load()
		now, state := g.now(tm), tm.state.Load()
		if now >= tm.deadline.Load() || state >= sealed {
			if _, _, err := g.t.verdict(tm); err != nil {
				return tm, 0, 0, err
			}
			continue
		}
		if early := now + tm.offset; early < 0 {
			return tm, 0, 0, &ClockError{Behind: time.Duration(-early)}
		}
		tick, last, limit := tm.tickAt(now), tm.tickOf(state), tm.limit.Load()
		first = state + 1
		fresh := tick > last && tick-last > tm.lag.Load()
		if fresh {
			first = tick << tm.seqBits
			if g.randomSeq > 0 {
				first += rand.Uint64N(g.randomSeq)
			}
		}
		if first >= limit && tm.tickOf(first) >= tm.ends.Load() { // the next era's
			if g.t.turn(tm) {
				continue
			}
			return tm, 0, 0, nil
		}
		if first >= limit { // the fence, by value
			if _, _, err := g.t.verdict(tm); err != nil {
				return tm, 0, 0, g.endOf(tm, first, err)
			}
			continue
		}
		end := min((tick+1)<<tm.seqBits, limit)
		if first >= end {
			if tm.tickAt(g.now(tm)) > tick {
				continue // the clock moved while we looked, as others' draws may show
			}
			return tm, 0, 0, nil
		}
		n = min(want, end-first)
		if tm.tickOf(first+n-1) > last {
			// A tick begins here: the fence by the wall clock, and the anchor.
			mono, wall := g.t.observe(tm)
			if mono >= tm.deadline.Load() || wall >= tm.wallEnd.Load() {
				if _, _, err := g.t.verdict(tm); err != nil {
					return tm, 0, 0, err
				}
				continue
			}
		}
		skip := first - state - 1
		g.t.counters.skipped.Add(skip) // before the draw: see Stats
		if tm.state.CompareAndSwap(state, first+n-1) {
			if fresh && tm.lag.Load() != 0 {
				tm.lag.Store(0) // no longer saturated
			}
			return tm, first, n, nil
		}
		g.t.counters.skipped.Add(-skip)
	}
}

// endOf tells the end of the time field from the end of the span, for a ticket
// that was refused.
func (g *Generator) endOf(tm *term, ticket uint64, err error) error {
	if err == ErrFenced && ticket < sealed && tm.tickOf(ticket) >= 1<<g.layout.TimeBits {
		return ErrTimeOverflow
	}
	return err
}
