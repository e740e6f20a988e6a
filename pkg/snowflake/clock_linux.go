package snowflake

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1 // linux/include/uapi/linux/time.h
	clockBoottime  = 7
)

// bootAhead is CLOCK_BOOTTIME - CLOCK_MONOTONIC when the process began: suspends
// before that are none of ours. Between the two readings the thread may lose the
// CPU; monotonic first makes the base too large then, never too small.
var bootAhead, haveBoot = func() (int64, bool) {
	mono, ok1 := gettime(clockMonotonic)
	boot, ok2 := gettime(clockBoottime)
	return boot - mono, ok1 && ok2
}()

// suspendedSinceStart is how long the machine was suspended since the process
// began, in ns. Reading boot time first makes it too small when the thread loses
// the CPU in between, never too large; the next look finds the rest.
func suspendedSinceStart() int64 {
	boot, ok1 := gettime(clockBoottime)
	mono, ok2 := gettime(clockMonotonic)
	if !ok1 || !ok2 || !haveBoot {
		return 0
	}
	return boot - mono - bootAhead
}

// gettime is clock_gettime(2). It never blocks, so the scheduler need not know.
func gettime(clock uintptr) (int64, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}

// preciseSleep waits d within some 60 µs: Go's own timers round waits below a
// millisecond up to one, which at 4,096 IDs per millisecond is a whole tick lost.
// The thread blocks, so callers keep d short.
func preciseSleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // an early return is fine: callers look at the clock again
}
