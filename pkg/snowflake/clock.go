package snowflake

import (
	"sync/atomic"
	"time"
)

// Clock reads the two clocks of a machine. A Clock that also has the method
// Sleep(time.Duration) is asked to wait when a call has to; otherwise the wait is
// a time.Sleep. One that has the method Generation() uint64 is asked at each call
// whether its machine was restored from a snapshot; see Timeline.Copied. Any other
// Clock than SystemClock is read through this interface, Monotonic on each call and Wall
// once per tick and where a call waits, on each call with [WithStrictWall]: it may skew,
// step, drift or stand still.
type Clock interface {
	// Wall is the civil time. It may step either way.
	Wall() time.Time
	// Monotonic is the time since some fixed moment. It never goes back and, where
	// the platform measures it, counts the time that the machine was suspended.
	Monotonic() time.Duration
}

type sleeper interface{ Sleep(d time.Duration) }

type generational interface{ Generation() uint64 }

// SystemClock is the clocks of the machine. All of them count Monotonic from one
// moment of the process. On Linux a suspend of the machine counts as time passed:
// Go's own monotonic clock does not count it. In a testing/synctest bubble it
// is the bubble's time, which begins in the year 2000: before the epoch of
// every layout here but for those that you make.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Wall() time.Time { return time.Now().Round(0) }

func (systemClock) Monotonic() time.Duration {
	now := time.Since(origin)
	lookForSuspend(now)
	return now + time.Duration(suspended.Load())
}

// origin is the moment from which Monotonic counts.
var origin = time.Now()

// jitter is how much two clocks may differ without that meaning anything.
const jitter = time.Millisecond

var (
	suspended atomic.Int64 // ns that the machine slept since origin: what time.Since(origin) lacks
	looked    atomic.Int64 // time.Since(origin) of the last look
)

// lookEvery is how often a suspend is looked for: a look costs two system calls.
const lookEvery = time.Millisecond

// lookForSuspend, at most once per lookEvery, raises suspended when CLOCK_BOOTTIME ran ahead of
// CLOCK_MONOTONIC. It compares the two with each other and never with
// time.Since, which is virtual in a synctest bubble.
func lookForSuspend(now time.Duration) {
	last := looked.Load()
	// Unsigned: a look made in a bubble may lie far in the future or the past.
	if uint64(int64(now)-last) < uint64(lookEvery) || !looked.CompareAndSwap(last, int64(now)) {
		return
	}
	gap := suspendedSinceStart()
	for s := suspended.Load(); gap > s+int64(jitter); s = suspended.Load() {
		if suspended.CompareAndSwap(s, gap) {
			return
		}
	}
}
