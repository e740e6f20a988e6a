package snowflake

import (
	"math"
	"time"
)

// Stamps are not read from the wall clock. They are
//
//	anchor + monotonic, where anchor = wall - monotonic at some moment,
//
// because reading the monotonic clock is cheap, and that clock never goes back. The
// wall clock is read once per tick and on each wait, and may move the anchor:
//
//	wall ahead by more than 10 ms    (a step, a suspend)   re-anchor
//	wall behind, up to WithMaxBackward                     continue: a borrow,
//	                                                       counted; re-anchor once the
//	                                                       wall clock has passed the
//	                                                       last stamp
//	wall behind by more                                    re-anchor; calls fail with a *ClockError
//	                                                       until the clock has passed the last stamp
//
// A span's Ceiling is an upper bound of the anchor. If the wall clock jumps beyond
// the ceiling, stamps do not follow it. They advance with the monotonic clock until
// a renewal has confirmed that the wall clock is right, or until the wall clock is
// set back. In neither case does a call have to wait.
//
// Whatever the anchor does, the state word only grows: neither order nor
// uniqueness depends on this file.

const (
	forwardStep = 10 * time.Millisecond
	notAnchored = math.MinInt64
)

// mono returns the reading of the monotonic clock, in ns.
func (t *Timeline) mono() int64 {
	if t.system {
		return int64(time.Since(origin)) + suspended.Load()
	}
	return int64(t.clock.Monotonic())
}

// both reads the wall clock and then the monotonic clock. So time that passes
// between the two readings makes the wall clock seem behind, never ahead.
func (t *Timeline) both() (mono, wall int64) {
	if t.system {
		now := time.Now() // must be read in this order
		since := now.Sub(origin)
		lookForSuspend(since)
		return int64(since) + suspended.Load(), now.UnixNano()
	}
	wall = t.clock.Wall().UnixNano()
	return int64(t.clock.Monotonic()), wall
}

// anchorNow reads both clocks three times and returns the largest anchor, which
// is the one with the least time between its two readings.
func (t *Timeline) anchorNow() int64 {
	best := int64(math.MinInt64)
	for range 3 {
		mono, wall := t.both()
		best = max(best, wall-mono)
	}
	return best
}

// observe reads both clocks for a call on tm that is about to enter a new tick or
// to wait, and moves the anchor if the wall clock no longer agrees with it. It may
// end tm.
func (t *Timeline) observe(tm *term) (mono, wall int64) {
	mono, wall = t.both()
	if ahead := time.Duration(mono + tm.anchor - wall); ahead < -forwardStep || ahead > jitter {
		t.follow(tm)
	}
	return mono, wall
}

// follow moves the anchor to the wall clock if tm's anchor is too far from it.
func (t *Timeline) follow(tm *term) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.term.Load() != tm || t.state != isBound || t.layout == nil {
		return // another call has moved the anchor, or nothing can be stamped
	}
	anchor := t.anchorNow()
	// Invariant: no anchor is above the ceiling. An anchor that would be above it is
	// ignored. If it were only lowered to the ceiling, stamps would be ahead by more than
	// the length of a lease, and calls would have to wait that long once the wall clock
	// is right again.
	if anchor > t.ceiling {
		anchor = tm.anchor
	}
	switch borrow := time.Duration(tm.anchor - anchor); {
	case borrow < -forwardStep:
		t.counters.stepsForward.Add(1)
		t.borrow = 0
		t.seal()
		t.beginAt(anchor)
	case borrow <= jitter:
		t.borrow = 0
	default:
		if borrow > t.borrow+jitter {
			t.counters.stepsBack.Add(1)
		}
		t.borrow = borrow
		// Stamps may stay ahead of the wall clock by up to maxBack.
		wallTick := t.layout.tickOf((t.mono() + anchor) / int64(time.Millisecond))
		if borrow > t.maxBack+jitter || tm.tickOf(tm.state.Load()) < wallTick {
			t.borrow = 0
			t.seal()
			t.beginAt(anchor)
		}
	}
}

// Now returns the time on which renewals are based. This is the wall clock, but
// never less than the wall clock at the last Bind or SetFloor plus the monotonic
// time that has passed since then. So no renewal requests an expiry that is too
// early because the wall clock was set back. If the wall clock is ahead for a
// while, Now follows it forward and back. No call makes a stamp that is ahead of
// Now: while stamps are ahead of the wall clock (WithMaxBackward), Now is ahead as
// well. Before the first Bind, Now returns the wall clock.
func (t *Timeline) Now() time.Time {
	if t.absent() {
		return time.Time{}
	}
	floor := t.floor.Load()
	if floor == notAnchored {
		return t.clock.Wall()
	}
	mono, wall := t.observe(t.term.Load())
	if tm := t.term.Load(); tm.state.Load() < sealed {
		floor = max(floor, tm.anchor)
	}
	return time.Unix(0, max(wall, mono+floor))
}

// SetFloor replaces the lower bound of Now. The new bound is the time at when the
// monotonic clock reads mono, and it advances with that clock. Call SetFloor if the
// wall clock was ahead at the last Bind and another source shows that it is right
// again; otherwise Now would stay ahead. SetFloor does nothing if the timeline is
// not bound.
func (t *Timeline) SetFloor(at time.Time, mono time.Duration) {
	if t.absent() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == isBound {
		t.floor.Store(at.UnixNano() - int64(mono))
	}
}
