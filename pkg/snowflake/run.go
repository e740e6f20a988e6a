package snowflake

import (
	"context"
	"math"
	"time"
)

// Run is a series of IDs that Draw has drawn at once for another process to use.
// All IDs of a run are in one era, and their milliseconds had begun when the run
// was drawn. The IDs are never assigned again, however late they are used, since
// a release never lowers the reservation below the end of the run. Left is needed
// only so that the IDs are recent and are not used after the deadline.
type Run struct {
	Layout   Layout
	NodeID   int
	NodeBits int           // the width of the node ID in the run's era
	First    uint64        // the first ticket: its tick, followed by the sequence's bits
	Count    uint64        // the number of IDs, at least 1
	Left     time.Duration // how long the IDs may be used, from the call of Draw on
}

// ID returns the i-th ID, from 0 to Count-1. IDs increase with i.
func (r Run) ID(i uint64) ID {
	tm := newTerm(r.Layout, r.NodeID, r.NodeBits, 0, 0)
	return tm.id(r.First + i)
}

// Draw draws a run of 1 to want IDs from ticks that began at most back ago,
// including past ticks in which nothing was stamped. It takes at most 1/shares of
// the available IDs (but at least one), so that some IDs are left for other
// callers. It waits for the next tick as NextContext does.
//
// Run.Left is the time until the deadline or the end of the span, whichever comes
// first. A process that requests a run from another process should read its
// clocks before it sends the request, and measure Left from that moment.
func (g *Generator) Draw(ctx context.Context, want uint64, shares int, back time.Duration) (Run, error) {
	want, share := max(want, 1), uint64(max(shares, 1))
	ticks := uint64(min(max(back, 0), time.Second) / max(g.Layout().Tick, 1)) // 0 in a nil or zero Generator
	for {
		tm, first, n, err := g.reserveFrom(want, ticks, share)
		if err == nil && n == 0 {
			tm, first, n, err = g.queue(ctx, want, share)
		}
		if err != nil {
			return Run{}, g.refuse(err)
		}
		if n == 0 {
			continue // there is another term, or another caller was faster
		}
		// A run that reaches the deadline, or whose term was sealed meanwhile, is lost.
		mono, wall := g.t.observe(tm)
		left := min(until(tm.deadline.Load(), mono), until(tm.wallEnd.Load(), wall))
		if left > 0 {
			return Run{g.layout, int(tm.node >> tm.lowBits), int(tm.shift - tm.lowBits), first, n, left}, nil
		}
		g.t.counters.skipped.Add(n)
		if _, _, err := g.t.verdict(tm); err != nil {
			return Run{}, g.refuse(err)
		}
	}
}

// queue draws a share of the next tick's tickets and waits for that tick, as
// slow does with one ticket. If n is 0, the caller tries again.
func (g *Generator) queue(ctx context.Context, want, share uint64) (tm *term, first, n uint64, err error) {
	tm = g.t.term.Load()
	mono, state := g.t.mono(), tm.state.Load()
	if state >= sealed {
		return tm, 0, 0, nil
	}
	if ctx != nil && ctx.Err() != nil {
		return tm, 0, 0, ctx.Err()
	}
	first = state + 1
	if next := tm.tickOf(first); next > tm.begun(mono)+1 { // the clock is behind
		_, err = g.pause(ctx, tm, tm.until(next-1, mono), math.MaxInt64)
		return tm, 0, 0, err
	}
	left := (tm.tickOf(first)+1)<<tm.seqBits - first
	n = min(want, max(left/share, 1))
	if !tm.state.CompareAndSwap(state, state+n) {
		return tm, 0, 0, nil
	}
	// All tickets are in one tick, so if settle accepts the last one, all are
	// valid.
	last := first + n - 1
	id, err := g.settle(ctx, tm, last, math.MaxInt64)
	if err == nil && id == tm.id(last) {
		return tm, first, n, nil
	}
	lost := n - 1 // settle has counted the last one
	if err == nil {
		lost = n // settle has drawn another one in place of the last one
	}
	g.t.counters.skipped.Add(lost)
	return tm, 0, 0, err
}

// until returns the time from now to moment. It does not wrap around for the
// largest and smallest values.
func until(moment, now int64) time.Duration {
	if now < 0 && moment > math.MaxInt64+now {
		return math.MaxInt64
	}
	if moment == math.MinInt64 {
		return -1
	}
	return time.Duration(moment - now)
}
