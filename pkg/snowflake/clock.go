package snowflake

import (
	"sync/atomic"
	"time"
)

// Clock reads the two clocks of a machine. If a Clock also has the method
// Sleep(time.Duration), calls that must wait use that method; otherwise they use
// time.Sleep. If it has the method Generation() uint64, each call uses that
// method to find out whether the machine was restored from a snapshot; see
// Timeline.Copied. If the Clock is not SystemClock, each call reads Monotonic
// through this interface. Wall is read once per tick and on each wait, or on each
// call with [WithStrictWall]. The readings of Wall and Monotonic may be skewed,
// step, drift or stop.
type Clock interface {
	// Wall is the civil time. It may step forward or back.
	Wall() time.Time
	// Monotonic is the time since some fixed moment. It never goes back. Where the
	// platform measures how long the machine was suspended, Monotonic includes that
	// time.
	Monotonic() time.Duration
}

type sleeper interface{ Sleep(d time.Duration) }

type generational interface{ Generation() uint64 }

// SystemClock returns a Clock that reads the machine's clocks. All clocks that it
// returns measure Monotonic from the same moment, the start of the process. On
// Linux, Monotonic includes the time that the machine was suspended, which Go's
// own monotonic clock does not include. In a testing/synctest bubble, the Clock
// reads the bubble's time, which begins in the year 2000, before the epoch of
// every layout in this package.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Wall() time.Time { return time.Now().Round(0) }

func (systemClock) Monotonic() time.Duration {
	now := time.Since(origin)
	lookForSuspend(now)
	return now + time.Duration(suspended.Load())
}

// origin is the moment at which Monotonic is 0.
var origin = time.Now()

// jitter is the largest difference between two clock readings that is ignored.
const jitter = time.Millisecond

var (
	suspended atomic.Int64 // ns that the machine was suspended since origin, which time.Since(origin) does not include
	looked    atomic.Int64 // time.Since(origin) at the last check
)

// lookEvery is how often the clock checks for a suspend, which takes two system
// calls.
const lookEvery = time.Millisecond

// lookForSuspend raises suspended if CLOCK_BOOTTIME has advanced more than
// CLOCK_MONOTONIC. It checks this at most once per lookEvery. It compares the two
// clocks with each other and never with time.Since, which is virtual in a
// synctest bubble.
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
