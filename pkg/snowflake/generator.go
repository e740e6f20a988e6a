package snowflake

import (
	"context"
	"math"
	"time"
)

// Generator makes IDs. It is safe for concurrent use; what it hands out grows
// strictly, whichever of its methods is called by whom. It needs no closing: it
// ends with its node.
type Generator struct {
	t     *Timeline
	plain bool // the machine's clocks, read the fast way

	strict    bool
	layout    Layout
	maxWait   time.Duration
	maxBack   time.Duration
	catchUp   time.Duration
	maxLag    uint64 // catchUp in ticks
	randomSeq uint64
}

// New makes a generator on n, which is a lease agent, or Fixed. Any number of
// generators on one node share its timeline and never collide; they must have one
// layout. The error says what does not fit, all at once.
func New(n Node, opts ...Option) (*Generator, error) {
	if f, ok := n.(fixed); ok && f.err != nil {
		return nil, f.err
	}
	g := &Generator{
		t:       n.Timeline(),
		layout:  Default(),
		maxWait: defaultMaxWait,
		maxBack: defaultMaxBack,
		catchUp: defaultCatchUp,
	}
	for _, o := range opts {
		o(g)
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	g.maxLag = uint64((g.catchUp + g.layout.Tick - 1) / g.layout.Tick)
	g.plain = g.t.system && !g.strict
	if err := g.t.adopt(g); err != nil {
		return nil, err
	}
	return g, nil
}

// Layout is what Decompose needs to take this generator's IDs apart.
func (g *Generator) Layout() Layout { return g.layout }

// Stats are those of the node's timeline: all generators on it together.
func (g *Generator) Stats() Stats { return g.t.Stats() }

// Next returns the next ID. When the sequence of a tick is used up it waits for
// the next one, and never longer than WithMaxWait in all. An error is ErrFenced,
// ErrClosed, ErrBusy, ErrTimeOverflow or a *ClockError, and then the ID is 0.
func (g *Generator) Next() (ID, error) {
	// Next and NextContext are the same lines twice: a shared function would not be
	// inlined, and the call is 5 % of all there is.
	tm := g.t.term.Load()
	var now int64
	if g.plain {
		now = int64(time.Since(origin)) + suspended.Load()
	} else {
		now = g.now(tm)
	}
	if now < tm.deadline.Load() { // the fence, by the monotonic clock, on each call
		tick, lag := tm.tickAt(now), tm.lag.Load()
		end := min((tick+1)<<(tm.seqBits&63), tm.limit.Load()) // never ahead of the clock, never outside of the span
		// Look before drawing: refused calls must not use tickets up, or a fenced
		// generator in a loop runs hours ahead. (Unsigned: a state ahead of the
		// clock fails too.)
		if state := tm.state.Load(); tick-tm.tickOf(state) <= lag && state+1 < end {
			// And look at what was drawn: others may have been faster.
			ticket := tm.state.Add(1)
			if ticket < end && (ticket&tm.mark != 0 || lag == 0) {
				return tm.id(ticket), nil
			}
			return g.settle(nil, tm, ticket, g.maxWait)
		}
	}
	return g.slow(nil, g.maxWait)
}

// NextContext is Next with the wait bounded by ctx alone. That ctx has ended is
// noticed when there is a wait.
func (g *Generator) NextContext(ctx context.Context) (ID, error) {
	tm := g.t.term.Load()
	var now int64
	if g.plain {
		now = int64(time.Since(origin)) + suspended.Load()
	} else {
		now = g.now(tm)
	}
	if now < tm.deadline.Load() {
		tick, lag := tm.tickAt(now), tm.lag.Load()
		end := min((tick+1)<<(tm.seqBits&63), tm.limit.Load())
		if state := tm.state.Load(); tick-tm.tickOf(state) <= lag && state+1 < end {
			ticket := tm.state.Add(1)
			if ticket < end && (ticket&tm.mark != 0 || lag == 0) {
				return tm.id(ticket), nil
			}
			return g.settle(ctx, tm, ticket, math.MaxInt64)
		}
	}
	return g.slow(ctx, math.MaxInt64)
}

// TryNext returns the next ID, or at once ErrBusy if a call would have to wait.
func (g *Generator) TryNext() (ID, error) {
	tm, ticket, n, err := g.reserve(1)
	if n == 0 {
		if err == nil {
			err = ErrBusy
		}
		return 0, g.refuse(err)
	}
	return tm.id(ticket), nil
}

// now is the monotonic clock for calls that cannot read the machine's directly. In the
// strict mode it reads the wall clock too, and tells one that is past the span's
// end as the end of time, which sends the call to where clocks are looked at with
// care.
func (g *Generator) now(tm *term) int64 {
	if !g.strict {
		return g.t.mono()
	}
	mono, wall := g.t.observe(tm)
	if wall >= tm.wallEnd.Load() {
		return math.MaxInt64
	}
	return mono
}

// refuse counts a call that ends in err.
func (g *Generator) refuse(err error) error {
	g.t.counters.refused.Add(1)
	return err
}
