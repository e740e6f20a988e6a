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

// Node provides the timeline from which generators draw tickets. The providers
// of pkg/lease are Nodes, and so is *Timeline.
type Node interface {
	// Timeline returns the same timeline at every call: all generators on one node share
	// it.
	Timeline() *Timeline
}

// Timeline holds the milliseconds that a node may stamp, and the one state word
// from which all generators on that node draw, so that they never collide.
//
//	NewTimeline ──▶ sealed ──Bind──▶ bound ──Seal──▶ sealed ──Close──▶ closed
//	                                  │ ▲
//	                                  └─┘ Extend: a renewal was confirmed
//
// A bound timeline is fenced, too, from its Deadline on and after Until. The
// lease agent calls Bind, Extend and Seal; an application need not call them. On
// a nil or zero Timeline, Bind, Check and Widen fail, and the other methods do
// nothing.
type Timeline struct {
	_      noCopy
	term   atomic.Pointer[term] // never nil
	clock  Clock                // immutable
	system bool                 // clock is SystemClock, which is read directly and not through the interface

	watched bool    // the generation can be read; see Copied
	machine *uint64 // SystemClock's generation counter, if there is a device

	gate gate

	_  [128]byte // separates the fields below, which are written, from those above, which each call reads
	mu sync.Mutex
	// The following fields are guarded by mu.
	layout   *Layout // set by the first New, then immutable
	decide   func(want *Layout) (Layout, error)
	span     Span
	untilMs  int64 // the source of truth, from which terms are derived
	deadline int64
	ceiling  int64 // no anchor is above it
	state    lifeState
	noticed  bool          // a call has ended the term because of a restore, and no Seal has followed
	used     uint64        // last tick of all terms that must not be stamped again
	last     time.Time     // last millisecond stamped since the last Bind
	maxBack  time.Duration // the smallest value of all generators on the timeline
	maxWait  time.Duration // likewise
	borrow   time.Duration // how far stamps were ahead of the wall clock at the last check
	drawn    uint64        // tickets of the terms that are over
	told     uint64        // the largest Stats.Issued that was returned so far

	known    atomic.Uint64 // the generation as of NewTimeline or the last Seal of a sealed timeline
	floor    atomic.Int64  // Unix ns at monotonic 0 as of the last Bind or SetFloor, for Now; notAnchored before the first
	counters counters
}

// noCopy makes vet report copies of a struct that has it as a field.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

type lifeState uint8

const (
	isSealed lifeState = iota // also the initial state
	isBound
	isClosed
)

// NewTimeline returns a timeline on which nothing can be stamped before the
// first Bind. If c is nil or holds a nil pointer, it uses SystemClock.
func NewTimeline(c Clock) *Timeline {
	if isNil(c) {
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

// absent reports whether t is nil or zero: NewTimeline did not create it.
func (t *Timeline) absent() bool { return t == nil || t.clock == nil }

// Timeline returns t. The method makes *Timeline a Node.
func (t *Timeline) Timeline() *Timeline { return t }

// Bind sets the timeline's node ID and span, and anchors its clock to the wall
// clock. If the timeline is already bound, Bind first seals the old span. Stamps
// continue after the last stamp that was made, so IDs keep increasing across
// binds. The error is ErrClosed, or describes the problems of s; in both cases
// nothing has changed.
func (t *Timeline) Bind(s Span) error {
	if t.absent() {
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
	// A span that was claimed before the snapshot may be bound by several
	// processes.
	if t.Copied() {
		return copiedError{}
	}
	t.seal()
	// If stamps continued after the clock has stepped back, the next holder, which
	// begins at the wall clock, could make the same stamps again.
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

// beginAt starts a term with the given anchor. The caller must hold mu and have
// sealed the last term.
func (t *Timeline) beginAt(anchor int64) {
	if t.layout == nil || t.state != isBound {
		return
	}
	l := *t.layout
	// A stamp is at most anchor + monotonic. So this minimum keeps all stamps at or
	// below the ceiling, whatever the wall clock shows.
	anchor = min(anchor, t.ceiling)
	// Stamp no millisecond up to NotBefore, since these belong to the last holder,
	// and no tick that an earlier term of this timeline may have stamped.
	if !t.span.NotBefore.IsZero() {
		t.used = max(t.used, l.tickOf(t.span.NotBefore.UnixMilli()))
	}
	// A tick far past the end of the time field would overflow when it is converted
	// to a ticket, and yield a tick that was stamped before.
	t.used = min(t.used, 1<<l.TimeBits)
	// A term has the width of the next tick to be stamped.
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

// setEnd sets tm's limits to the confirmed end of the span. The caller must
// hold mu.
func (t *Timeline) setEnd(tm *term) {
	// A tick belongs to the holder only if all of its milliseconds belong to the
	// holder. So with a tick of 10 ms, a tick that the span ends within is not
	// used.
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
// Neither of them ever moves back. Extend does nothing if the timeline is not
// bound.
func (t *Timeline) Extend(until time.Time, deadline time.Duration) {
	if t.absent() {
		return
	}
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

// SetCeiling replaces the ceiling of the span after a confirmed renewal. If the
// last stamp is above the new ceiling, stamps continue from the last stamp.
// SetCeiling does nothing if the timeline is not bound.
func (t *Timeline) SetCeiling(c Ceiling) {
	if t.absent() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != isBound {
		return
	}
	t.ceiling = c.anchor()
	if t.layout != nil && t.term.Load().anchor > t.ceiling {
		t.seal()
		t.beginAt(t.anchorNow())
	}
}

// Check returns nil if a call of Next that begins now would return an ID, after
// waiting at most WithMaxWait. Otherwise it returns the error that Next would
// return. It is for health checks, and generates no ID. Without a generator it
// checks only the span and the deadline.
func (t *Timeline) Check() error {
	if t.absent() {
		return errNoClock
	}
	tm := t.term.Load()
	mono, wall := t.observe(tm) // this may move the anchor, as a call does, and so begin another term
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
	// The checks below must match those in reserve.
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

// Widen adds an era that is recorded in the pool. From the first tick of the era
// on, IDs have the new width. The era must begin after the end of the span that
// is confirmed so far, since all of that span may have been stamped. If it
// begins earlier, or if the node ID does not fit the width, Widen returns an
// error and changes nothing. Widen also does nothing if the timeline is not
// bound, since the next Bind sets its own eras.
func (t *Timeline) Widen(e Era) error {
	if t.absent() {
		return errNoClock
	}
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

// turn ends a term at the end of its era and begins the next term, for a call
// that needs a tick of the next era. It returns false if the era's last tick has
// not begun, since calls with a ticket of that tick may still be waiting for it.
// The caller then tries again once that tick has begun. The waiting calls get
// their IDs, because the term is sealed only after their tick has begun, and no
// call waits longer than a tick.
func (t *Timeline) turn(tm *term) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.term.Load() != tm || t.state != isBound {
		return true // another call has begun the next term, or the timeline was sealed
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

// adopt adds g to the generators on t.
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
		t.beginAt(t.anchorNow())
	}
	return nil
}

// Stats contains counts of the generators' calls on one timeline since its
// creation.
type Stats struct {
	Issued  uint64 // IDs returned; IDs of calls in progress may or may not be included
	Waits   uint64 // how often a call slept until a tick began
	Refused uint64 // calls that ended in an error

	StepsForward uint64        // how often the wall clock was found ahead, and stamps moved forward with it
	StepsBack    uint64        // how often the wall clock was found behind, or further behind
	Borrow       time.Duration // how far stamps are ahead of the wall clock now, after a small step back
}

type counters struct {
	waits, refused, stepsForward, stepsBack atomic.Uint64
	skipped                                 atomic.Uint64 // tickets below the state word that no caller received
}

// Stats returns the counts so far. Counting IDs does not slow down calls, since
// the number of IDs issued follows from the state word.
func (t *Timeline) Stats() Stats {
	if t.absent() {
		return Stats{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c, drawn := &t.counters, t.drawn
	if tm := t.term.Load(); t.state == isBound && t.layout != nil {
		drawn += tm.state.Load() - tm.first
	}
	// A call counts skipped tickets before it draws the next ticket. So if Stats
	// reads the counters between these two steps, the difference is too small,
	// never too large.
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
