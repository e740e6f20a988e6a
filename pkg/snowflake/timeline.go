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
	term   atomic.Pointer[term] // never nil
	clock  Clock                // immutable
	system bool                 // clock is SystemClock, which is read without a call through the interface
	gate   gate

	_  [128]byte // what follows is written; what is above is read by each call
	mu sync.Mutex
	// Guarded by mu.
	layout   *Layout // set by the first New, then immutable
	span     Span
	untilMs  int64 // the truth; terms hold what follows from it
	deadline int64
	state    lifeState
	used     uint64        // last tick that must not be stamped again, over all terms
	last     time.Time     // last millisecond stamped since the last Bind
	maxBack  time.Duration // the smallest of the generators'
	borrow   time.Duration // how far stamps were ahead of the wall clock when last seen
	drawn    uint64        // tickets of the terms that are over
	told     uint64        // the largest Stats.Issued so far

	nowAnchor atomic.Int64 // Unix ns at monotonic 0, for Now; only grows; notAnchored before the first Bind
	counters  counters
}

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
	t := &Timeline{clock: c, maxBack: math.MaxInt64 / 2}
	_, t.system = c.(systemClock)
	t.gate.cond.L = &t.gate.mu
	t.nowAnchor.Store(notAnchored)
	t.term.Store(unbound())
	return t
}

// Timeline makes *Timeline a Node.
func (t *Timeline) Timeline() *Timeline { return t }

// Bind gives the timeline a number and a span, and anchors its clock to the wall
// clock. If it is bound already, the old span is sealed first. Stamps go on after
// the last one made, so IDs keep growing across binds. The error is ErrClosed, or
// says what is wrong with s; then nothing has changed.
func (t *Timeline) Bind(s Span) error {
	if s.Nodes == 0 {
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
	t.seal()
	t.state, t.span, t.last = isBound, s, time.Time{}
	t.untilMs, t.deadline = s.Until.UnixMilli(), int64(s.Deadline)
	t.begin()
	return nil
}

// begin starts a term anchored to the wall clock as it is now. Caller: mu held,
// the last term sealed.
func (t *Timeline) begin() {
	anchor := t.anchorNow()
	t.raiseNow(anchor)
	t.borrow = 0
	t.beginAt(anchor)
}

// beginAt starts a term with an anchor. Caller: mu held, the last term sealed.
func (t *Timeline) beginAt(anchor int64) {
	if t.layout == nil || t.state != isBound {
		return
	}
	l := *t.layout
	// Nothing at or before NotBefore, which is the last holder's, and nothing that
	// an earlier term of ours may have stamped.
	if !t.span.NotBefore.IsZero() {
		t.used = max(t.used, l.tickOf(t.span.NotBefore.UnixMilli()))
	}
	// One term has one width: that of the next tick to be stamped.
	eras := t.span.Eras
	era := eras.at(l, max(t.used+1, l.tickOf((t.mono()+anchor)/int64(time.Millisecond))))
	used := t.used
	if first := eras.firstTick(l, era); first > 0 {
		used = max(used, first-1)
	}
	tm := newTerm(l, t.span.NodeID, int(eras.width(l, era)), anchor, used)
	tm.era = era
	t.setEnd(tm)
	t.term.Store(tm)
}

// setEnd puts the confirmed end into tm. Caller: mu held.
func (t *Timeline) setEnd(tm *term) {
	// A tick is the holder's if all of its milliseconds are: with a tick of 10 ms
	// the one in which the span ends is left out.
	ticks := min(t.layout.tickOf(satAdd(t.untilMs, 1)), 1<<t.layout.TimeBits)
	ends := uint64(math.MaxUint64)
	if next := tm.era + 1; next < len(t.span.Eras) {
		ends = t.span.Eras.firstTick(*t.layout, next)
	}
	ticks = min(ticks, ends)
	tm.ends.Store(ends)
	tm.limit.Store(ticks << tm.seqBits)
	tm.wallEnd.Store(msToNs(satAdd(t.untilMs, 1)))
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
	t.maxBack = min(t.maxBack, g.maxBack)
	if t.layout == nil {
		t.layout = &g.layout
		t.begin()
	}
	return nil
}

func satAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func msToNs(ms int64) int64 {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return ms * int64(time.Millisecond)
}
