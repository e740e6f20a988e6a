package snowflake

import (
	"math"
	"sync/atomic"
	"time"
)

// Seal fences every generator at once until the next Bind. It returns the last
// millisecond that was stamped since the last Bind, or the zero time if nothing was
// stamped. With a tick of 10 ms, it returns the last millisecond of the last tick.
// Tickets that a Block has drawn are treated as stamped. Every ID of the span,
// including an ID that a call in progress is about to return, is in that
// millisecond or before it.
func (t *Timeline) Seal() (last time.Time) {
	if t.absent() {
		return time.Time{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end(isSealed)
}

// Close seals the timeline permanently: from then on, calls fail with ErrClosed.
// Close may be called more than once.
func (t *Timeline) Close() (last time.Time) {
	if t.absent() {
		return time.Time{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end(isClosed)
}

// end seals the timeline and sets its state. The caller must hold mu from the
// seal until the state is set, because a Bind in between would leave a term that
// keeps stamping after the last millisecond was returned.
func (t *Timeline) end(state lifeState) (last time.Time) {
	generation := t.generation()
	ends := t.state == isBound || t.noticed
	if ends {
		t.seal()
	}
	t.noticed = false
	if t.state != isClosed {
		t.state = state
	}
	// A seal that ends a term leaves a restore to be detected, since the machine may have
	// been restored after the caller called Copied, and until the seal. So does the first
	// seal after a call that noticed the restore. The next seal forgets the restore.
	if state == isSealed && !ends {
		t.known.Store(generation)
	}
	return t.last
}

// seal ends the current term. The caller must hold mu.
//
// The order of the steps makes tm.last, the last tick stamped, exact. First the
// deadline is set to a time in the past, and only then is the clock read. Every
// call reads the clock before the deadline, so a call that did not see the new
// deadline read the clock before seal did, and cannot stamp a tick later than
// tm.last. The swap returns a state that includes every ticket drawn so far;
// tickets drawn later are void. A call that waits with a ticket and finds that the
// deadline has passed calls verdict. If the ticket's tick had begun when seal read
// the clock, the call gets its ID, so tm.last has really been stamped. Otherwise
// the ticket is void.
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
	// Calls that raced for the last tickets may have drawn tickets beyond the limit.
	// Those tickets are void. A span that ends before the epoch has the limit 0, and
	// nothing was stamped in it. Without this bound, a release could reserve more
	// milliseconds than were confirmed, and the node ID could not be used until they
	// had passed.
	if limit := tm.tickOf(tm.limit.Load()); tm.last >= limit {
		tm.last = max(before, max(limit, 1)-1)
	}
	if tm.last > before {
		t.used, t.last = tm.last, t.layout.endOf(tm.last)
	}
	t.drawn += drawn - tm.first
}

// verdict is called by a call that found tm fenced. It reports whether tm is over
// and, if so, returns the last tick that was stamped in tm. err is the error that
// the call must return now. If err is nil, there is another term to try.
func (t *Timeline) verdict(tm *term) (over bool, last uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	copied := t.Copied()
	if copied && t.state == isBound {
		t.seal()
		t.state, t.noticed = isSealed, true
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

// A machine that is restored from a snapshot may run more than once at the same
// time. If so, two processes have the same lease, and each believes that it is the
// only holder. Where Linux has a VMClock device (/dev/vmclock0, readable by the
// process, with a generation counter), the hypervisor changes a number in a mapped
// page before a restored machine continues. Each call compares that number with its
// value at the beginning of the term. A machine that is only paused, or moved to
// another host while it runs, keeps its generation.

// Copied reports whether the machine was restored from a snapshot since NewTimeline
// or the last Seal. If it was, every call of a generator fails with ErrFenced, and
// Bind fails: everything that was claimed, requested or stamped since NewTimeline
// or the last Seal may belong to another copy as well. The caller should give up
// the lease without lowering its reservation, call Seal until Copied returns false,
// and claim a node ID with a new session. The first Seal after a Bind does not change
// the result of Copied, so that a restore just before it is not missed; the next one
// does. Copied always returns false if there is neither a VMClock device nor a Clock
// with the method Generation.
func (t *Timeline) Copied() bool { return t != nil && t.watched && t.generation() != t.known.Load() }

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

// copiedSince reports whether the machine's generation has changed since tm began.
// Call it only if t.watched.
func (t *Timeline) copiedSince(tm *term) bool {
	if t.machine != nil { // short enough to be inlined
		return atomic.LoadUint64(t.machine) != tm.generation
	}
	return t.generation() != tm.generation
}

// whenCopied is the clock reading that calls use if the machine's generation has
// changed since their term began. It is past every deadline.
const whenCopied = math.MaxInt64

// copiedError matches ErrFenced. Unlike other ErrFenced errors, it does not go away
// with a renewal.
type copiedError struct{}

func (copiedError) Error() string {
	return "snowflake: fenced: this machine was restored from a snapshot, and its copies would make equal IDs; a lease agent leases another node ID; a Fixed node needs a new process"
}

func (copiedError) Is(target error) bool { return target == ErrFenced }
