package snowflake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// slow does the work of Next in all cases that the fast path does not handle: a
// new tick, an exhausted tick, a fence, or a problem with the clock. The call
// holds no ticket yet. left is how long the call may still wait.
func (g *Generator) slow(ctx context.Context, left time.Duration) (ID, error) {
	for {
		tm, ticket, n, err := g.reserve(1)
		if err != nil {
			return 0, g.refuse(err)
		}
		if n == 1 {
			return tm.id(ticket), nil
		}
		// The tick is used up, and state determines the next ticket. If that ticket
		// is in the next tick, draw it as a place in the queue. Never draw a ticket
		// of a later tick: callers that give up would push the state far ahead of the
		// clock.
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
		wait := tm.until(next-1, mono)
		if wait > left {
			if g.t.observe(tm); g.t.term.Load() != tm {
				continue // the wall clock was set, and the anchor follows it
			}
		}
		if left, err = g.pause(ctx, tm, wait, left); err != nil {
			return 0, g.refuse(err)
		}
	}
}

// settle waits until the tick of a ticket has begun and returns its ID. While
// the generator is saturated, every 64th ticket also passes through settle (see
// term.mark). There are two reasons: the wall clock must be checked, since
// ticks then begin without any call waiting, and other callers get a turn.
func (g *Generator) settle(ctx context.Context, tm *term, ticket uint64, left time.Duration) (ID, error) {
	tick := tm.tickOf(ticket)
	for {
		// While the generator stays saturated, ticks begin here and never in reserve,
		// so the wall clock must be checked here too. The clocks are read before the
		// deadline; see seal.
		mono, wall := g.t.observe(tm)
		if tick >= tm.ends.Load() && ticket < sealed { // the ticket is in the next era, which has another width
			g.t.turn(tm)
			g.t.counters.skipped.Add(1)
			return g.slow(ctx, left)
		}
		if mono >= tm.deadline.Load() || g.t.watched && g.t.copiedSince(tm) || wall >= tm.wallEnd.Load() || ticket >= tm.limit.Load() {
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
			tm.lag.Store(g.maxLag) // saturated: let calls that oversleep catch up
		}
		var err error
		if left, err = g.pause(ctx, tm, wait, left); err != nil {
			g.t.counters.skipped.Add(1)
			return 0, g.refuse(err)
		}
	}
}

// pause waits for at most d, and returns how long the call may still wait. It
// subtracts the requested time and not the measured time, since an injected
// clock may not move.
func (g *Generator) pause(ctx context.Context, tm *term, d, left time.Duration) (time.Duration, error) {
	if d > left {
		// No queue is this long, so the clock must be behind.
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

// reserve draws up to want tickets that may all be stamped now. first is the
// first of them, and n is their number, which is 0 if none is available yet.
// reserve never waits. The error is ErrFenced, ErrClosed, ErrTimeOverflow or,
// before the epoch, a *ClockError.
func (g *Generator) reserve(want uint64) (tm *term, first, n uint64, err error) {
	return g.reserveFrom(want, 0, 1)
}

// reserveFrom is like reserve, but it also takes tickets of up to back past
// ticks, and takes at most the fraction 1/share of the available tickets.
func (g *Generator) reserveFrom(want, back, share uint64) (tm *term, first, n uint64, err error) {
	if g == nil || g.t == nil {
		return nil, 0, 0, errNotNew
	}
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
			if g.t.observe(tm); g.t.term.Load() != tm {
				continue // the wall clock was set, and the anchor follows it
			}
			return tm, 0, 0, &ClockError{Behind: time.Duration(-early)}
		}
		tick, last, limit := tm.tickAt(now), tm.tickOf(state), tm.limit.Load()
		first = state + 1
		fresh := tick > last && tick-last > max(tm.lag.Load(), back)
		begin := min(tick-back, g.ticks) // the start of a new tick
		// A tick far past the end of the time field would overflow when it is
		// converted to a ticket, and yield a tick that was stamped before, or ID 0.
		tick = min(tick, g.ticks)
		if fresh {
			first = begin << tm.seqBits
			if g.randomSeq > 0 {
				first += rand.Uint64N(g.randomSeq)
			}
		}
		if first >= limit && tm.tickOf(first) >= tm.ends.Load() { // the ticket is in the next era
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
			if min(tm.tickAt(g.now(tm)), g.ticks) > tick {
				continue // the clock has advanced meanwhile, and other calls may have drawn tickets of later ticks
			}
			return tm, 0, 0, nil
		}
		n = min(want, max((end-first)/share, 1))
		if tm.tickOf(first+n-1) > last {
			// A tick begins here, so check the fence by the wall clock, and move the
			// anchor if needed.
			mono, wall := g.t.observe(tm)
			if mono >= tm.deadline.Load() || wall >= tm.wallEnd.Load() {
				if _, _, err := g.t.verdict(tm); err != nil {
					return tm, 0, 0, err
				}
				continue
			}
		}
		skip := first - state - 1
		g.t.counters.skipped.Add(skip) // counted before the draw; see Stats
		if tm.state.CompareAndSwap(state, first+n-1) {
			if fresh && tm.lag.Load() != 0 {
				tm.lag.Store(0) // no longer saturated
			}
			return tm, first, n, nil
		}
		g.t.counters.skipped.Add(-skip)
	}
}

// endOf returns the error for a refused ticket. This is err, except that
// ErrTimeOverflow replaces ErrFenced if the ticket is past the end of the time
// field.
func (g *Generator) endOf(tm *term, ticket uint64, err error) error {
	if err == ErrFenced && ticket < sealed && tm.tickOf(ticket) >= 1<<g.layout.TimeBits {
		return ErrTimeOverflow
	}
	return err
}

// gate is where calls wait for the clock. One call sleeps, and the others block
// until that call wakes them. So there is no timer and no goroutine per call,
// and neither exists while the generator is idle.
type gate struct {
	mu       sync.Mutex
	cond     sync.Cond
	sleeping bool
	virtual  atomic.Bool // time does not advance while code runs, as in a synctest bubble
}

// wait returns after about d, or earlier, so callers must check the clock
// again.
func (t *Timeline) wait(d time.Duration) {
	g := &t.gate
	g.mu.Lock()
	if g.sleeping {
		g.cond.Wait()
		g.mu.Unlock()
		return
	}
	g.sleeping = true
	g.mu.Unlock()
	t.sleep(d)
	g.mu.Lock()
	g.sleeping = false
	g.cond.Broadcast()
	g.mu.Unlock()
}

// maxSleep limits each sleep, since a call must soon notice that its context
// has ended or its term is over.
const maxSleep = 5 * time.Millisecond

func (t *Timeline) sleep(d time.Duration) {
	d = min(d, maxSleep)
	if s, ok := t.clock.(sleeper); ok {
		s.Sleep(d)
		return
	}
	// With any other clock, time may be virtual. Virtual time advances only while
	// every goroutine is blocked in a way that the runtime recognizes, such as
	// time.Sleep.
	if !t.system || t.gate.virtual.Load() || d > 2*time.Millisecond {
		time.Sleep(d)
		return
	}
	before := time.Since(origin)
	preciseSleep(d)
	if time.Since(origin) == before {
		t.gate.virtual.Store(true)
	}
}
