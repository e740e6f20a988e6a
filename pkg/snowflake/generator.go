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

// Generator generates IDs. It is safe for concurrent use; its IDs increase
// strictly across methods and goroutines. It need not be closed: it stops
// working when its node is closed. New returns a Generator; calls on a nil or
// zero Generator fail with ErrClosed.
type Generator struct {
	_     noCopy
	t     *Timeline
	plain bool // whether calls read the machine's clock directly

	machine *uint64 // the machine's generation counter, if calls read the clock directly and check it; else nil

	strict    bool
	layout    Layout
	laidOut   bool // WithLayout was given
	maxWait   time.Duration
	maxBack   time.Duration
	catchUp   time.Duration
	maxLag    uint64 // catchUp in ticks
	ticks     uint64 // ticks that fit the time field
	randomSeq uint64
}

// New returns a generator on n, which is a lease agent or another provider from
// pkg/lease. Any number of generators on one node share the node's timeline and
// never generate equal IDs; they must have the same layout. Generators on a
// lease agent have the layout of the agent's pool: New reads the layout from the
// store, or records it there if the pool never had a generator. It waits up to
// 30 s for the store. The error lists all problems at once.
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

// timelineOf returns the timeline of a node. It returns an error if n or the
// timeline is nil, or if the timeline is a zero value that NewTimeline did not
// return.
func timelineOf(n Node) (*Timeline, error) {
	if isNil(n) {
		return nil, errors.New("snowflake: no node: New needs a lease agent, a fixed node or a Timeline, and got nil")
	}
	t := n.Timeline()
	if t.absent() {
		return nil, errNoClock
	}
	return t, nil
}

// isNil reports whether v is nil, or an interface with a nil pointer in it.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// errNotNew is returned for a nil or zero Generator or Block.
var errNotNew = fmt.Errorf("%w: a nil or zero Generator or Block: snowflake.New returns a generator, and Generator.Block a block", ErrClosed)

var errNoClock = errors.New("snowflake: the node has no timeline, or a zero one: create it with NewTimeline")

// Layout returns the layout that decodes this generator's IDs.
func (g *Generator) Layout() Layout {
	if g == nil {
		return Layout{}
	}
	return g.layout
}

// Stats returns the counts of the node's timeline, summed over all generators on
// it.
func (g *Generator) Stats() Stats {
	if g == nil || g.t == nil {
		return Stats{}
	}
	return g.t.Stats()
}

// Next returns the next ID. When the sequence of a tick is used up, it waits
// for the next tick, but never longer than WithMaxWait in total. If it fails,
// the error is ErrFenced, ErrClosed, ErrBusy, ErrTimeOverflow or a *ClockError,
// and the ID is 0.
func (g *Generator) Next() (ID, error) { return g.next(nil, false) }

// NextContext is like Next, but only ctx limits how long it waits. It checks ctx
// only when it has to wait. Here and in NextN and Draw, a nil ctx never ends.
func (g *Generator) NextContext(ctx context.Context) (ID, error) { return g.next(ctx, true) }

// next is Next, or NextContext if patient is set. The compiler inlines these two, so
// that a caller calls next directly.
func (g *Generator) next(ctx context.Context, patient bool) (ID, error) {
	if g == nil {
		return 0, errNotNew
	}
	var tm *term // loaded before the clock is read
	var now int64
	if g.plain {
		tm = g.t.term.Load()
		now = int64(time.Since(origin)) + suspended.Load()
	} else if g.machine != nil {
		tm = g.t.term.Load()
		now = int64(time.Since(origin)) + suspended.Load()
		if atomic.LoadUint64(g.machine) != tm.generation {
			now = whenCopied
		}
	} else if g.t != nil {
		tm = g.t.term.Load()
		now = g.now(tm)
	} else { // no cost for the others: the zero Generator is not plain
		return 0, errNotNew
	}
	if now < tm.deadline.Load() { // the fence, by the monotonic clock, on each call
		tick, lag := tm.tickAt(now), tm.lag.Load()
		end := min((tick+1)<<(tm.seqBits&63), tm.limit.Load()) // never ahead of the clock, never outside the span
		// Check before drawing a ticket. If refused calls used up tickets, the state
		// of a fenced generator that is called in a loop would run hours ahead. The
		// difference is unsigned, so the check also fails if the state is ahead of the
		// clock.
		if state := tm.state.Load(); tick-tm.tickOf(state) <= lag && state+1 < end {
			// Also check the ticket after drawing it, since other calls may have been
			// faster.
			ticket := tm.state.Add(1)
			if ticket < end && (ticket&tm.mark != 0 || lag == 0) {
				return tm.id(ticket), nil
			}
			return g.settle(ctx, tm, ticket, g.wait(patient))
		}
	}
	return g.slow(ctx, g.wait(patient))
}

// wait returns how long a call may wait.
func (g *Generator) wait(patient bool) time.Duration {
	if patient {
		return math.MaxInt64
	}
	return g.maxWait
}

// TryNext returns the next ID, or returns ErrBusy at once if it would have to
// wait.
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

// now reads the monotonic clock for calls that cannot read the machine's clock
// directly. In strict mode it also reads the wall clock. If the wall clock is
// past the span's end, it returns math.MaxInt64, so that the call continues in
// slow.
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
	if g != nil && g.t != nil {
		g.t.counters.refused.Add(1)
	}
	return err
}

// Option configures a generator in New.
type Option func(*Generator)

// WithLayout sets the layout, which is otherwise Default. On a lease agent, omit
// this option to use the pool's layout; New fails if the layout differs from the
// pool's.
func WithLayout(l Layout) Option {
	return func(g *Generator) { g.layout, g.laidOut = l, true }
}

// WithStrictWall makes each call read the wall clock, which is otherwise read
// once per tick. It costs about 30 ns per call and narrows one gap: without this
// option, after a suspend that the monotonic clock does not include, calls may
// succeed for up to a millisecond past the end of the span. The stamps of these
// calls are still inside the span, so IDs are unique even without this option.
func WithStrictWall() Option { return func(g *Generator) { g.strict = true } }

// WithMaxWait limits how long Next waits for the next tick, for earlier callers,
// and for a clock that is behind. Defaults to 2 s, which is longer than a new
// holder may have to wait for the end of a crashed holder's reservation (at most
// 1 s with the default ClaimGuard).
func WithMaxWait(d time.Duration) Option { return func(g *Generator) { g.maxWait = d } }

// WithMaxBackward sets how far the wall clock may step back before calls fail
// with a *ClockError. After a smaller step back, stamps continue with the
// monotonic clock and are ahead of the wall clock for a while (Stats.Borrow).
// Defaults to 1 s. With 0, calls fail after any step back of a millisecond or
// more until the clock has caught up. The smallest value of all generators on a
// node applies to all of them.
func WithMaxBackward(d time.Duration) Option { return func(g *Generator) { g.maxBack = d } }

// WithCatchUp sets how old a stamp may be while callers request more IDs than a
// tick contains. On a busy machine, a waiting call may wake up after its tick
// has passed. With WithCatchUp, calls may still use the ticks that passed
// meanwhile; otherwise those ticks are lost. Defaults to 16 ms, a time slice of
// the scheduler; 0 turns it off.
func WithCatchUp(d time.Duration) Option { return func(g *Generator) { g.catchUp = d } }

// WithRandomSequence begins the sequence of each tick at a random number below n
// instead of at 0. IDs that are generated at a rate of less than one per tick
// can then be distributed over shards by taking them modulo the number of
// shards. Each tick loses up to n IDs; n is at most half of the sequence.
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

// DecideLayout makes fn decide the layout of every generator that New creates on
// t from now on. New passes fn the layout that its caller requests, or nil. It
// uses the layout that fn returns, or fails with fn's error. The lease agent
// calls DecideLayout, so that all generators of a pool have the pool's layout;
// an application need not call it.
func (t *Timeline) DecideLayout(fn func(want *Layout) (Layout, error)) {
	if t.absent() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decide = fn
}

// decideLayout sets the layout of g to the one that its timeline chooses.
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
	l, err := decide(want) // decide may take a while, so t is not locked
	if err != nil {
		return err
	}
	g.layout = l
	return g.check()
}
