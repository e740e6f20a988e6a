package snowflake

import (
	"sync/atomic"
	"time"
)

// Clock reads the two clocks of a machine. If a Clock also has the method
// Sleep(time.Duration), calls that must wait use it; otherwise they use
// time.Sleep. If it has the method Generation() uint64, each call uses it to
// find out whether the machine was restored from a snapshot; see
// Timeline.Copied. A Clock other than SystemClock is read through this
// interface, Monotonic on each call and Wall once per tick and on each wait, or
// on each call with [WithStrictWall]. Its readings may be skewed, step, drift
// or stop.
type Clock interface {
	// Wall is the civil time. It may step either way.
	Wall() time.Time
	// Monotonic is the time since some fixed moment. It never goes back and, where
	// the platform measures it, counts the time that the machine was suspended.
	Monotonic() time.Duration
}

type sleeper interface{ Sleep(d time.Duration) }

type generational interface{ Generation() uint64 }

// SystemClock returns a Clock that reads the machine's clocks. All values that it
// returns count Monotonic from the same moment, when the process began. On Linux,
// Monotonic includes the time that the machine was suspended, which Go's own
// monotonic clock does not. In a testing/synctest bubble it reads the bubble's
// time, which begins in the year 2000, before the epoch of every layout of this
// package.
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

// jitter is the largest difference between two clocks that is ignored.
const jitter = time.Millisecond

var (
	suspended atomic.Int64 // ns that the machine slept since origin, which time.Since(origin) lacks
	looked    atomic.Int64 // time.Since(origin) at the last check
)

// lookEvery is how often the clock checks for a suspend, which takes two system
// calls.
const lookEvery = time.Millisecond

// lookForSuspend, at most once per lookEvery, raises suspended when CLOCK_BOOTTIME ran ahead of
// CLOCK_MONOTONIC. It compares the two with each other and never with
// time.Since, which is virtual in a synctest bubble.
func lookForSuspend(now time.Duration) {
	last := looked.Load()
	// The difference is unsigned because a check made in a bubble may be far in
	// the future or the past.
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
