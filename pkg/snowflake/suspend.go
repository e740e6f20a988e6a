package snowflake

import (
	"sync/atomic"
	"time"
)

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
