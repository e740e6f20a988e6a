package snowflake

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Timeline is the milliseconds that a node may stamp, and the one state word from
// which all generators on that node draw, so that they never collide.
//
//	NewTimeline ──▶ sealed ──Bind──▶ bound ──Seal──▶ sealed ──Close──▶ closed
//	                                  │ ▲
//	                                  └─┘ Extend: a renewal was confirmed
//
// Bound, it may still be fenced: at its Deadline, and past Until. The lease agent
// drives it; an application has no need to.
type Timeline struct {
	_      noCopy
	term   atomic.Pointer[term] // never nil
	clock  Clock                // immutable
	system bool                 // clock is SystemClock, which is read without a call through the interface

	watched bool    // the generation can be read; see Copied
	machine *uint64 // SystemClock's, where there is a device

	gate gate

	_  [128]byte // what follows is written; what is above is read by each call
	mu sync.Mutex
	// Guarded by mu.
	layout   *Layout // set by the first New, then immutable
	decide   func(want *Layout) (Layout, error)
	span     Span
	untilMs  int64 // the truth; terms hold what follows from it
	deadline int64
	ceiling  int64 // no anchor is above it
	state    lifeState
	used     uint64        // last tick that must not be stamped again, over all terms
	last     time.Time     // last millisecond stamped since the last Bind
	maxBack  time.Duration // the smallest of the generators'
	maxWait  time.Duration // likewise
	borrow   time.Duration // how far stamps were ahead of the wall clock when last seen
	drawn    uint64        // tickets of the terms that are over
	told     uint64        // the largest Stats.Issued so far

	known    atomic.Uint64 // the generation as of NewTimeline or the last Seal
	floor    atomic.Int64  // Unix ns at monotonic 0 as of the last Bind or SetFloor, for Now; notAnchored before the first
	counters counters
}

// noCopy makes vet complain about copies of what has it as a field.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

type lifeState uint8

const (
	isSealed lifeState = iota // also at first
	isBound
	isClosed
)

// NewTimeline makes a timeline on which nothing can be stamped before the first
// Bind. A nil clock is SystemClock.
func NewTimeline(c Clock) *Timeline {
	if c == nil {
		c = SystemClock()
	}
	if _, ok := c.(systemClock); ok {
		return newTimeline(c, machineGeneration())
	}
	return newTimeline(c, nil)
}

func newTimeline(c Clock, machine *uint64) *Timeline {
	t := &Timeline{clock: c, maxBack: math.MaxInt64 / 2, maxWait: math.MaxInt64, ceiling: math.MaxInt64}
	_, t.system = c.(systemClock)
	_, t.watched = c.(generational)
	t.machine, t.watched = machine, t.watched || machine != nil
	t.known.Store(t.generation())
	t.gate.cond.L = &t.gate.mu
	t.floor.Store(notAnchored)
	t.term.Store(unbound())
	return t
}

// Timeline makes *Timeline a Node.
func (t *Timeline) Timeline() *Timeline { return t }

// Bind sets the timeline's node ID and span, and anchors its clock to the wall
// clock. If it is bound already, the old span is sealed first. Stamps go on after
// the last one made, so IDs keep growing across binds. The error is ErrClosed, or
// says what is wrong with s; then nothing has changed.
func (t *Timeline) Bind(s Span) error {
	if t.clock == nil {
		return errNoClock
	}
	if s.Nodes == 0 && s.NodeID >= 0 && s.NodeID < math.MaxInt {
		s.Nodes = s.NodeID + 1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == isClosed {
		return ErrClosed
	}
	if err := s.check(t.layout); err != nil {
		return err
	}
	// A span that was claimed before the snapshot was taken may be bound by several.
	if t.Copied() {
		return copiedError{}
	}
	t.seal()
	// Stamps that go on past a step back of the clock would be made again by a next
	// holder that begins at the wall clock.
	if s.Unrecorded {
		t.maxBack = 0
	}
	t.state, t.span, t.last = isBound, s, time.Time{}
	t.untilMs, t.deadline, t.ceiling = s.Until.UnixMilli(), int64(s.Deadline), s.Ceiling.anchor()
	anchor := t.anchorNow()
	t.floor.Store(anchor)
	t.borrow = 0
	t.beginAt(anchor)
	return nil
}

// begin starts a term anchored to the wall clock as it is now. Caller: mu held,
// the last term sealed.
func (t *Timeline) begin() { t.beginAt(t.anchorNow()) }

// beginAt starts a term with an anchor. Caller: mu held, the last term sealed.
func (t *Timeline) beginAt(anchor int64) {
	if t.layout == nil || t.state != isBound {
		return
	}
	l := *t.layout
	// A stamp is at most anchor + monotonic, so this keeps all of them below the
	// ceiling, whatever the wall clock says.
	anchor = min(anchor, t.ceiling)
	// Nothing at or before NotBefore, which is the last holder's, and nothing that
	// an earlier term of ours may have stamped.
	if !t.span.NotBefore.IsZero() {
		t.used = max(t.used, l.tickOf(t.span.NotBefore.UnixMilli()))
	}
	// A ticket of a tick far past the end of the time field would wrap around, to
	// ticks that were stamped.
	t.used = min(t.used, 1<<l.TimeBits)
	// One term has one width: that of the next tick to be stamped.
	eras := t.span.Eras
	era := eras.at(l, max(t.used+1, l.tickOf((t.mono()+anchor)/int64(time.Millisecond))))
	used := t.used
	if first := eras.firstTick(l, era); first > 0 {
		used = max(used, first-1)
	}
	tm := newTerm(l, t.span.NodeID, int(eras.width(l, era)), anchor, used)
	tm.era, tm.generation = era, t.known.Load()
	t.setEnd(tm)
	t.term.Store(tm)
}

// setEnd puts the confirmed end into tm. Caller: mu held.
func (t *Timeline) setEnd(tm *term) {
	// A tick is the holder's if all of its milliseconds are: with a tick of 10 ms
	// the one in which the span ends is left out.
	ticks := min(t.layout.tickOf(nextMs(t.untilMs)), 1<<t.layout.TimeBits)
	ends := uint64(math.MaxUint64)
	if next := tm.era + 1; next < len(t.span.Eras) {
		ends = t.span.Eras.firstTick(*t.layout, next)
	}
	ticks = min(ticks, ends)
	tm.ends.Store(ends)
	tm.limit.Store(ticks << tm.seqBits)
	tm.wallEnd.Store(msToNs(nextMs(t.untilMs)))
	tm.deadline.Store(t.deadline)
}

// Extend moves the end of the span and the deadline after a confirmed renewal.
// Neither ever moves back. A timeline that is not bound ignores it.
func (t *Timeline) Extend(until time.Time, deadline time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != isBound {
		return
	}
	t.untilMs, t.deadline = max(t.untilMs, until.UnixMilli()), max(t.deadline, int64(deadline))
	if t.layout != nil {
		t.setEnd(t.term.Load())
	}
}

// SetCeiling replaces the ceiling of the span after a confirmed renewal. If stamps
// are above it, they go on from it. A timeline that is not bound ignores it.
func (t *Timeline) SetCeiling(c Ceiling) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != isBound {
		return
	}
	t.ceiling = c.anchor()
	if t.layout != nil && t.term.Load().anchor > t.ceiling {
		t.seal()
		t.begin()
	}
}

// Check reports whether a Next that begins now gets an ID, after waiting at most
// WithMaxWait: nil, or the error that Next would return. It is for health checks,
// and makes nothing. Without a generator it looks at the span and the deadline
// alone.
func (t *Timeline) Check() error {
	tm := t.term.Load()
	mono, wall := t.observe(tm) // the anchor follows, as in a call; then there may be another term
	t.mu.Lock()
	defer t.mu.Unlock()
	past := wall >= msToNs(nextMs(t.untilMs))
	switch {
	case t.state == isClosed:
		return ErrClosed
	case t.Copied():
		return copiedError{}
	case t.state != isBound || mono >= t.deadline || t.layout == nil && past:
		return ErrFenced
	case t.layout == nil:
		return nil
	}
	// As in reserve.
	tm = t.term.Load()
	early, state, now := mono+tm.offset, tm.state.Load(), tm.begun(mono)
	next := tm.tickOf(state + 1)
	if last := tm.tickOf(state); now > last && now-last > tm.lag.Load() {
		next = now
	}
	wait := tm.until(next, mono)
	switch {
	case early < 0:
		return &ClockError{Behind: time.Duration(-early)}
	case next >= 1<<t.layout.TimeBits:
		return ErrTimeOverflow
	case past || next >= t.layout.tickOf(nextMs(t.untilMs)):
		return ErrFenced
	case wait > t.maxWait:
		return &ClockError{Behind: wait}
	}
	return nil
}

// Widen adds an era, which the pool has been told of: from its first tick on IDs
// have the new width. It must begin behind the end of the span that was confirmed
// so far, for what is confirmed may have been stamped; the error says so, or that
// the node ID does not fit, and then nothing has changed. A timeline that is not
// bound ignores it: the next Bind brings its own eras.
func (t *Timeline) Widen(e Era) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != isBound {
		return nil
	}
	if e.From.UnixMilli() <= t.untilMs || len(t.span.Eras) == 0 {
		return fmt.Errorf("snowflake: an era from %v cannot be added to a span that reaches to %v, with %d eras before it",
			e.From, time.UnixMilli(t.untilMs).UTC(), len(t.span.Eras))
	}
	s := t.span
	s.Eras = append(slices.Clone(s.Eras), e)
	if err := s.check(t.layout); err != nil {
		return err
	}
	t.span = s
	if t.layout != nil {
		t.setEnd(t.term.Load())
	}
	return nil
}

// turn ends a term whose era ends and begins the next one, for a caller that
// needs a tick behind it. False: the era's last tick has not begun, so that calls
// with a ticket of it still wait for that; come back when it has. They get their
// IDs when it is sealed after that, and nobody waits longer than for a tick.
func (t *Timeline) turn(tm *term) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.term.Load() != tm || t.state != isBound {
		return true // someone else has, or it is over
	}
	ends := tm.ends.Load()
	if tm.begun(t.mono())+1 < ends {
		return false
	}
	t.seal()
	t.used = max(t.used, ends-1)
	t.beginAt(tm.anchor)
	return true
}

// adopt makes g one of the generators on t.
func (t *Timeline) adopt(g *Generator) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.layout != nil && !t.layout.equal(g.layout) {
		return errors.New("snowflake: another generator on this node has another layout, and the two could make equal IDs; use one layout per node")
	}
	if t.state == isBound {
		if err := t.span.check(&g.layout); err != nil {
			return err
		}
	}
	t.maxBack, t.maxWait = min(t.maxBack, g.maxBack), min(t.maxWait, g.maxWait)
	if t.layout == nil {
		t.layout = &g.layout
		t.begin()
	}
	return nil
}

// nextMs is the millisecond after ms, or the last one there is.
func nextMs(ms int64) int64 { return max(ms, ms+1) }

// msToNs saturates at both ends.
func msToNs(ms int64) int64 {
	const most = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case ms > most:
		return math.MaxInt64
	case ms < -most:
		return math.MinInt64
	}
	return ms * int64(time.Millisecond)
}

// Stats counts what the generators on one timeline did since it was made.
type Stats struct {
	Issued  uint64 // IDs handed out, to within those in progress
	Waits   uint64 // times that a call slept until a tick began
	Refused uint64 // calls that ended in an error

	StepsForward uint64        // times that the wall clock was found ahead, and followed
	StepsBack    uint64        // times that the wall clock was found behind, or further behind
	Borrow       time.Duration // how far stamps are ahead of the wall clock now, after a small step back
}

type counters struct {
	waits, refused, stepsForward, stepsBack atomic.Uint64
	skipped                                 atomic.Uint64 // tickets below the state word that nobody has got
}

// Stats returns the counts so far. They cost the calls nothing: the number of IDs
// issued follows from the state word.
func (t *Timeline) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, drawn := &t.counters, t.drawn
	if tm := t.term.Load(); t.state == isBound && t.layout != nil {
		drawn += tm.state.Load() - tm.first
	}
	// A call counts the tickets that it skips before it draws the one after them:
	// seen in between, the difference is too small, never too large.
	if issued := drawn - c.skipped.Load(); int64(issued) > int64(t.told) {
		t.told = issued
	}
	return Stats{
		Issued:       t.told,
		Waits:        c.waits.Load(),
		Refused:      c.refused.Load(),
		StepsForward: c.stepsForward.Load(),
		StepsBack:    c.stepsBack.Load(),
		Borrow:       t.borrow,
	}
}
