package snowflake

import (
	"time"
)

// Clock reads the two clocks of a machine. A Clock that also has the method
// Sleep(time.Duration) is asked to wait when a call has to; otherwise the wait is
// a time.Sleep. Any other Clock than SystemClock is read through this interface
// on each call, so it may skew, step, drift or stand still.
type Clock interface {
	// Wall is the civil time. It may step either way.
	Wall() time.Time
	// Monotonic is the time since some fixed moment. It never goes back and, where
	// the platform can tell, counts the time that the machine was suspended.
	Monotonic() time.Duration
}

type sleeper interface{ Sleep(d time.Duration) }

// SystemClock is the clocks of the machine. All of them count Monotonic from one
// moment of the process. On Linux a suspend of the machine counts as time passed:
// Go's own monotonic clock stands still then. In a testing/synctest bubble it
// tells the bubble's time, which begins in the year 2000: before the epoch of
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
