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

// anchorNow reads the clocks until they were read together, and gives the
// anchor. The largest of a few is the one with the least time in between.
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
	switch borrow := time.Duration(tm.anchor - anchor); {
	case borrow < -forwardStep:
		t.counters.stepsForward.Add(1)
		t.seal()
		t.begin()
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
			t.seal()
			t.begin()
		}
	}
}

// Now is the lease's clock and, but for one case, the one that stamps come from:
// the wall clock at Bind plus the monotonic time since. It never goes back, and
// follows a wall clock that is ahead (a step forward, a suspend). The one case:
// when the wall clock has stepped back by more than WithMaxBackward, stamps wait
// for it, and Now does not, for a renewal must not ask for an earlier expiry.
// Before the first Bind it is the wall clock.
func (t *Timeline) Now() time.Time {
	anchor := t.nowAnchor.Load()
	if anchor == notAnchored {
		return t.clock.Wall()
	}
	mono, wall := t.observe(t.term.Load())
	if wall-mono > anchor+int64(forwardStep) {
		anchor = t.raiseNow(wall - mono)
	}
	return time.Unix(0, anchor+mono)
}

// raiseNow lifts the anchor of Now, and gives the one in force.
func (t *Timeline) raiseNow(anchor int64) int64 {
	for {
		old := t.nowAnchor.Load()
		if anchor <= old {
			return old
		}
		if t.nowAnchor.CompareAndSwap(old, anchor) {
			return anchor
		}
	}
}
