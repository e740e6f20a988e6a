package snowflake

import (
	"math"
	"sync/atomic"
	"time"
)

// Seal fences every generator at once until the next Bind, and returns the last
// millisecond that was stamped since the last one, or the zero time if none was.
// (With a tick of 10 ms that is the last millisecond of the tick. IDs that a
// Block has drawn count as stamped.) Every ID of the span, including one that a
// call in progress is about to return, is in that millisecond or before it.
func (t *Timeline) Seal() (last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end(isSealed)
}

// Close seals permanently: calls fail with ErrClosed from now on. It may be
// called again.
func (t *Timeline) Close() (last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end(isClosed)
}

// end seals the timeline and sets its state. Caller: mu held, from the seal until
// the state is set: a Bind in between would leave a term that keeps stamping
// after the last millisecond was returned.
func (t *Timeline) end(state lifeState) (last time.Time) {
	generation := t.generation()
	if t.state == isBound {
		t.seal()
	}
	if t.state != isClosed {
		t.state = state
	}
	// Read before the seal: a copy of the machine made during it is detected later.
	if state == isSealed {
		t.known.Store(generation)
	}
	return t.last
}

// seal ends the current term. Caller: mu held.
//
// The order makes the mark exact. First the deadline is set into the
// past, and only then is the clock read. Every caller reads the clock first and the
// deadline after it: one that has not seen this deadline has a reading before
// ours, stamps no later tick, and is covered. The swap covers every ticket drawn
// so far and voids those of later draws. A caller that waits with a ticket and
// finds the deadline past asks for the verdict, and gets its ID if its tick has
// begun by our reading: so the mark is a millisecond that has really been stamped.
// Otherwise its ticket is void.
func (t *Timeline) seal() {
	tm := t.term.Load()
	tm.deadline.Store(math.MinInt64)
	drawn := tm.state.Load()
	if drawn >= sealed {
		return
	}
	drawn = tm.state.Swap(sealed)
	tm.void = t.watched && t.copiedSince(tm)
	before := tm.tickOf(tm.first)
	tm.last = max(before, min(tm.tickOf(drawn), tm.begun(t.mono())))
	// Draws that raced for the last tickets may have gone beyond the limit. Those
	// are void. A span that ends before the epoch has the limit 0, and nothing was
	// stamped: a release that reserved more than was confirmed would make the node
	// ID unusable for that time.
	if limit := tm.tickOf(tm.limit.Load()); tm.last >= limit {
		tm.last = max(before, max(limit, 1)-1)
	}
	if tm.last > before {
		t.used, t.last = tm.last, t.layout.endOf(tm.last)
	}
	t.drawn += drawn - tm.first
}

// verdict is for a caller that found tm fenced: whether tm is over, and if it
// is, the last tick that was stamped in it. The error is the one that a call
// must return now; nil means that there is another term to try.
func (t *Timeline) verdict(tm *term) (over bool, last uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	copied := t.Copied()
	if copied && t.state == isBound {
		t.seal()
		t.state = isSealed
	}
	over, last = tm.state.Load() >= sealed && !tm.void, tm.last
	switch {
	case t.state == isClosed:
		err = ErrClosed
	case copied:
		err = copiedError{}
	case t.term.Load() == tm:
		err = ErrFenced
	}
	return over, last, err
}

// A machine that is restored from a snapshot may run twice: two processes with one
// lease, each of which believes that it is the only one. Where Linux has a VMClock
// device (/dev/vmclock0, readable by the process, with a generation counter), the
// hypervisor changes a number in a mapped page before a restored machine continues.
// Each call compares that number with the one at the beginning of its term. A
// machine that is only paused, or moved to another host while it runs, keeps its
// generation.

// Copied reports whether the machine was restored from a snapshot since NewTimeline
// or the last Seal. Then every generator fails with ErrFenced from its next call on,
// and Bind fails: everything claimed, requested or stamped since then belongs to
// another copy as much as to this process. Give up the lease without lowering its
// reservation, Seal, and claim with a new session. Copied is always false without
// such a device.
func (t *Timeline) Copied() bool { return t.watched && t.generation() != t.known.Load() }

// generation returns the machine's generation, or 0 if there is none.
func (t *Timeline) generation() uint64 {
	switch {
	case t.machine != nil:
		return atomic.LoadUint64(t.machine)
	case t.watched:
		return t.clock.(generational).Generation()
	}
	return 0
}

// copiedSince reports whether tm is a term of another generation. Caller: t.watched.
func (t *Timeline) copiedSince(tm *term) bool {
	if t.machine != nil { // short enough to be inlined
		return atomic.LoadUint64(t.machine) != tm.generation
	}
	return t.generation() != tm.generation
}

// whenCopied is the clock reading for calls on a term of another generation: past
// every deadline.
const whenCopied = math.MaxInt64

// copiedError is an ErrFenced that a renewal does not end.
type copiedError struct{}

func (copiedError) Error() string {
	return "snowflake: fenced: this machine was restored from a snapshot, and its copies would make equal IDs; a lease agent leases another node ID; a Fixed node needs a new process"
}

func (copiedError) Is(target error) bool { return target == ErrFenced }
