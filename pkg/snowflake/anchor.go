package snowflake

import (
	"math"
	"time"
)

// Stamps are not the wall clock but
//
//	anchor + monotonic, where anchor = wall - monotonic at some moment,
//
// because the monotonic clock is cheap, and because only it never goes back. The
// wall clock is looked at once per tick and on each wait, and moves the anchor:
//
//	wall ahead by more than 10 ms    (a step, a suspend)   anchor anew
//	wall behind, up to WithMaxBackward                     go on: a borrow, counted;
//	                                                       anchor anew as soon as no stamp is in the way
//	wall behind by more                                    anchor anew; calls fail with a *ClockError
//	                                                       until the clock has passed the last stamp
//
// A span's Ceiling bounds the anchor from above. A wall clock that jumps beyond it is
// not followed: stamps go on with the monotonic clock until a renewal has confirmed
// that the wall clock is right, or it is set back, after which no call waits.
//
// Whatever the anchor does, the state word only grows: neither order nor
// uniqueness hangs on this file.

const (
	forwardStep = 10 * time.Millisecond
	notAnchored = math.MinInt64
)

// mono is the monotonic clock as each call reads it.
func (t *Timeline) mono() int64 {
	if t.system {
		return int64(time.Since(origin)) + suspended.Load()
	}
	return int64(t.clock.Monotonic())
}

// both reads the wall clock and then the monotonic one: what passes in between
// makes the wall clock seem behind, never ahead.
func (t *Timeline) both() (mono, wall int64) {
	if t.system {
		now := time.Now() // reads both, in this order
		since := now.Sub(origin)
		lookForSuspend(since)
		return int64(since) + suspended.Load(), now.UnixNano()
	}
	wall = t.clock.Wall().UnixNano()
	return int64(t.clock.Monotonic()), wall
}

// anchorNow reads both clocks three times and returns the anchor with the least
// time between the two readings, which is the largest.
func (t *Timeline) anchorNow() int64 {
	best := int64(math.MinInt64)
	for range 3 {
		mono, wall := t.both()
		best = max(best, wall-mono)
	}
	return best
}

// observe reads both clocks for a call on tm that is about to enter a new tick or
// to wait, and lets the anchor follow. Then tm may be over.
func (t *Timeline) observe(tm *term) (mono, wall int64) {
	mono, wall = t.both()
	if ahead := time.Duration(mono + tm.anchor - wall); ahead < -forwardStep || ahead > jitter {
		t.follow(tm)
	}
	return mono, wall
}

// follow lets the anchor follow a wall clock that is away from tm's.
func (t *Timeline) follow(tm *term) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.term.Load() != tm || t.state != isBound || t.layout == nil {
		return // someone else has, or there are no stamps
	}
	anchor := t.anchorNow()
	// Invariant: no anchor is above the ceiling. One at the ceiling would be ahead by
	// more than a lease, and calls would wait for as long once the wall clock is right.
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
		// A stamp that is in the way may be borrowed past, up to maxBack.
		wallTick := t.layout.tickOf((t.mono() + anchor) / int64(time.Millisecond))
		if borrow > t.maxBack+jitter || tm.tickOf(tm.state.Load()) < wallTick {
			t.borrow = 0
			t.seal()
			t.beginAt(anchor)
		}
	}
}

// Now is the clock that renewals ask by: the wall clock, and never less than the
// wall clock at the last Bind or SetFloor plus the monotonic time since, so that no
// renewal asks for an expiry that lags because the wall clock was set back. A glitch heals: Now
// follows a wall clock that is ahead, and comes back with it. No call makes a stamp
// that is ahead of Now: while stamps are borrowed (WithMaxBackward), Now is too.
// Before the first Bind it is the wall clock.
func (t *Timeline) Now() time.Time {
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

// SetFloor replaces the clock that Now is never below: at, at mono on the monotonic
// clock. It is for a caller that knows from elsewhere that the wall clock is right
// now, where it was ahead at the Bind; without it Now would stay ahead. A timeline
// that is not bound ignores it.
func (t *Timeline) SetFloor(at time.Time, mono time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == isBound {
		t.floor.Store(at.UnixNano() - int64(mono))
	}
}
