package snowflake

import (
	"math"
	"time"
)

// Seal fences every generator at once until the next Bind, and returns the last
// millisecond that was stamped since the last one, or the zero time if none was.
// (With a tick of 10 ms that is the last of the tick's. Numbers that a Block has
// drawn count as stamped.) Every ID of the span, also one that a call in progress
// is about to return, is in that millisecond or before it.
func (t *Timeline) Seal() (last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == isBound {
		t.seal()
		t.state = isSealed
	}
	return t.last
}

// Close is Seal for good: calls fail with ErrClosed from now on. It may be called
// again.
func (t *Timeline) Close() (last time.Time) {
	last = t.Seal()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = isClosed
	return last
}

// seal ends the present term. Caller: mu held.
//
// The order is what makes the mark exact. First the deadline goes into the past,
// and only then the clock is read. Every caller reads the clock first and the
// deadline after it: one that has not seen this deadline has a reading before
// ours, stamps no later tick, and is covered. The swap takes every ticket drawn so
// far and voids those of later draws. A caller who waits with a ticket and finds
// the deadline gone asks for the verdict, and gets its ID if its tick has begun by
// our reading: the mark is a millisecond that has really been stamped. Its ticket
// is void otherwise.
func (t *Timeline) seal() {
	tm := t.term.Load()
	tm.deadline.Store(math.MinInt64)
	drawn := tm.state.Load()
	if drawn >= sealed {
		return
	}
	drawn = tm.state.Swap(sealed)
	before := tm.tickOf(tm.first)
	tm.last = max(before, min(tm.tickOf(drawn), tm.begun(t.mono())))
	// Draws that raced for the last tickets went beyond the limit. Those are void.
	if limit := tm.tickOf(tm.limit.Load()); tm.last >= limit {
		tm.last = max(before, limit-1)
	}
	if tm.last > before {
		t.used, t.last = tm.last, t.layout.endOf(tm.last)
	}
	t.drawn += drawn - tm.first
}

// verdict is for a caller that found tm fenced: whether tm is over, and if it
// is, the last tick that was stamped in it. The error says what the timeline has
// to say to a call now; nil means that there is another term to try.
func (t *Timeline) verdict(tm *term) (over bool, last uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	over, last = tm.state.Load() >= sealed, tm.last
	switch {
	case t.state == isClosed:
		err = ErrClosed
	case t.term.Load() == tm:
		err = ErrFenced
	}
	return over, last, err
}
