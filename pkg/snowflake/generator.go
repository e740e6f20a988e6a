package snowflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"time"
)

// Generator makes IDs. It is safe for concurrent use; what it hands out grows
// strictly across methods and goroutines. It needs no closing: it
// ends with its node. New makes one; the zero Generator is of no use.
type Generator struct {
	_     noCopy
	t     *Timeline
	plain bool // the machine's clocks, read the fast way

	machine *uint64 // as plain, on a machine whose generation is looked at; else nil

	strict    bool
	layout    Layout
	laidOut   bool // WithLayout was given
	maxWait   time.Duration
	maxBack   time.Duration
	catchUp   time.Duration
	maxLag    uint64 // catchUp in ticks
	ticks     uint64 // that the time field has
	randomSeq uint64
}

// New makes a generator on n, a lease agent or another of pkg/lease's providers. Any number of
// generators on one node share its timeline and never collide; they must have one
// layout. On a lease agent that is the layout of its pool, which New reads, or binds
// if no generator of the pool was made before: it waits for the store up to 30 s.
// The error says what does not fit, all at once.
func New(n Node, opts ...Option) (*Generator, error) {
	t, err := timelineOf(n)
	if err != nil {
		return nil, err
	}
	g := &Generator{
		t:       t,
		layout:  Default(),
		maxWait: defaultMaxWait,
		maxBack: defaultMaxBack,
		catchUp: defaultCatchUp,
	}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("snowflake: option %d of %d is nil", i+1, len(opts))
		}
		o(g)
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	if err := g.t.decideLayout(g); err != nil {
		return nil, err
	}
	g.maxLag = uint64((g.catchUp + g.layout.Tick - 1) / g.layout.Tick)
	g.ticks = 1 << g.layout.TimeBits
	g.plain = g.t.system && !g.strict && !g.t.watched
	if !g.strict {
		g.machine = g.t.machine
	}
	if err := g.t.adopt(g); err != nil {
		return nil, err
	}
	return g, nil
}

// timelineOf returns the timeline of a node, and an error for one that has none:
// nil, a nil pointer, or a zero Timeline that NewTimeline did not make.
func timelineOf(n Node) (*Timeline, error) {
	if v := reflect.ValueOf(n); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("snowflake: no node: New needs a lease agent, a fixed node or a Timeline, and got nil")
	}
	t := n.Timeline()
	if t == nil || t.clock == nil {
		return nil, errNoClock
	}
	return t, nil
}

var errNoClock = errors.New("snowflake: the node has no timeline, or a zero one: NewTimeline makes one")

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
	} else if g.machine != nil {
		now = int64(time.Since(origin)) + suspended.Load()
		if atomic.LoadUint64(g.machine) != tm.generation {
			now = whenCopied
		}
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
	} else if g.machine != nil {
		now = int64(time.Since(origin)) + suspended.Load()
		if atomic.LoadUint64(g.machine) != tm.generation {
			now = whenCopied
		}
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
// strict mode it reads the wall clock too, and returns the end of time for one that is
// past the span's end: that sends the call to slow.
func (g *Generator) now(tm *term) int64 {
	if g.t.watched && g.t.copiedSince(tm) {
		return whenCopied
	}
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

// Option changes what New makes.
type Option func(*Generator)

// WithLayout replaces Default. On a lease agent leave it out, and the layout is the
// pool's; another one than the pool's is New's error.
func WithLayout(l Layout) Option {
	return func(g *Generator) { g.layout, g.laidOut = l, true }
}

// WithStrictWall reads the wall clock on each call, not once per tick. It costs
// some 30 ns a call and narrows one gap: after a suspend that the monotonic clock
// does not show, up to a millisecond of calls may succeed past the end of the
// span. Their stamps are inside of it all the same, so IDs are unique without it.
func WithStrictWall() Option { return func(g *Generator) { g.strict = true } }

// WithMaxWait bounds the wait of Next: for the next tick, for callers who came
// before, and for a clock that is behind. Defaults to 2 s, which is more than
// a node ID rests after a crash of its holder (1 s at most).
func WithMaxWait(d time.Duration) Option { return func(g *Generator) { g.maxWait = d } }

// WithMaxBackward is how far the wall clock may step back before calls fail with
// a *ClockError; up to that, stamps go on from the monotonic clock and are ahead of
// the wall clock for a while (Stats.Borrow). Defaults to 1 s; with 0 no step back
// of a millisecond or more is borrowed past. On one node the smallest counts.
func WithMaxBackward(d time.Duration) Option { return func(g *Generator) { g.maxBack = d } }

// WithCatchUp is how old a stamp may be while callers ask for more IDs than a
// tick has. A call that overslept its tick may then still use up the ticks that
// went by; without it, what a busy machine oversleeps is lost. Defaults to 16 ms,
// a slice of the scheduler; 0 is off.
func WithCatchUp(d time.Duration) Option { return func(g *Generator) { g.catchUp = d } }

// WithRandomSequence begins the sequence of a tick at a random number below n, not
// at 0. Callers who make less than an ID per tick then can take IDs modulo a
// number of shards. It costs up to n IDs of each such tick; n is at most half of
// the sequence.
func WithRandomSequence(n int) Option { return func(g *Generator) { g.randomSeq = uint64(max(n, 0)) } }

const (
	defaultMaxWait = 2 * time.Second
	defaultMaxBack = time.Second
	defaultCatchUp = 16 * time.Millisecond
)

func (g *Generator) check() error {
	var errs []error
	for _, o := range []struct {
		name string
		d    time.Duration
		max  time.Duration
	}{
		{"WithMaxWait", g.maxWait, 24 * time.Hour},
		{"WithMaxBackward", g.maxBack, 24 * time.Hour},
		{"WithCatchUp", g.catchUp, time.Second},
	} {
		if o.d < 0 || o.d > o.max {
			errs = append(errs, fmt.Errorf("snowflake: %s(%v): use 0 to %v", o.name, o.d, o.max))
		}
	}
	if err := g.layout.Validate(); err != nil {
		errs = append(errs, err)
	} else if half := uint64(1) << g.layout.SequenceBits / 2; g.randomSeq > half {
		errs = append(errs, fmt.Errorf("snowflake: WithRandomSequence(%d): use 0 to %d", g.randomSeq, half))
	}
	return errors.Join(errs...)
}

// DecideLayout makes fn decide on the layout of every generator that New makes on t
// from now on. New passes the layout that its caller asks for, or nil, and uses the
// one that fn returns, or fails with its error. The lease agent sets it, so that all
// generators of a pool have the pool's layout; an application has no need to.
func (t *Timeline) DecideLayout(fn func(want *Layout) (Layout, error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decide = fn
}

// decideLayout sets the layout of g to the one that its timeline decides on.
func (t *Timeline) decideLayout(g *Generator) error {
	t.mu.Lock()
	decide := t.decide
	t.mu.Unlock()
	if decide == nil {
		return nil
	}
	var want *Layout
	if g.laidOut {
		want = &g.layout
	}
	l, err := decide(want) // it may take a while: t is not locked
	if err != nil {
		return err
	}
	g.layout = l
	return g.check()
}
