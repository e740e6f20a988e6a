package sim

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"
)

// clock contains the two clocks of one machine.
type clock struct {
	mu     sync.Mutex
	offset time.Duration // offset of the wall clock from the true time
	moved  bool          // the wall clock was moved since the clock was made
	began  time.Time     // when the monotonic clock was 0
	ppm    int64         // by how many millionths the monotonic clock is too fast
}

func newClock(r *rand.Rand, p Plan) *clock {
	c := &clock{began: time.Now().Add(-time.Duration(r.Int64N(int64(time.Hour))))}
	c.ppm = []int64{0, -200, 200}[r.IntN(3)]
	if p.Wild {
		c.ppm = r.Int64N(20_000) - 10_000
	}
	c.set(p.clockError(r))
	return c
}

// copy returns a clock for a copy of the machine.
func (c *clock) copy() *clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &clock{offset: c.offset, began: c.began, ppm: c.ppm}
}

// set sets the wall clock's offset from the true time.
func (c *clock) set(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset, c.moved = offset, true
}

// shift moves the wall clock by d.
func (c *clock) shift(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset, c.moved = c.offset+d, true
}

// wasMoved reports whether the wall clock was moved since the clock was made.
func (c *clock) wasMoved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

// off returns the wall clock's offset from the true time.
func (c *clock) off() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

func (c *clock) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Round(0).Add(c.offset)
}

func (c *clock) monotonic() time.Duration {
	d := time.Since(c.began)
	return d + d/1_000_000*time.Duration(c.ppm)
}

// processClock is a machine's clock as a process reads it. While the process is paused, a
// reading may take until the end of the pause, and then returns the time before it.
type processClock struct{ p *process }

func (c *processClock) Wall() time.Time {
	t := c.p.clock.wall().Add(-c.p.behind())
	c.pause()
	return t
}

func (c *processClock) Monotonic() time.Duration {
	t := c.p.clock.monotonic() - c.p.behind()
	c.pause()
	return t
}

func (c *processClock) pause() {
	if c.p.pausing(atClock) && canPause() {
		c.p.stop(atClock)
	}
}

// A process can be paused while it reads a clock in one of the functions in pauseIn, that
// is, in a call of a generator or in a claim. It cannot be paused while one of the
// functions in pauseNot is running, because these hold the lock of the timeline or of the
// agent. A pause under a lock would stop virtual time as soon as another goroutine waits for
// the lock, and the world would hang.
var (
	pauseIn  = []string{"snowflake.(*Generator).", "lease.(*Agent).claim", "lease.(*Agent).take"}
	pauseNot = []string{
		"snowflake.(*Timeline).follow", "snowflake.(*Timeline).begin", "snowflake.(*Timeline).seal", "snowflake.(*Timeline).adopt",
		"snowflake.(*Timeline).verdict", "snowflake.(*Timeline).turn", "snowflake.(*Timeline).Bind", "lease.(*Agent).bind",
		"lease.(*Agent).tell", "lease.(*Agent).announce", "lease.(*Agent).attemptNow",
	}
)

// canPause reports whether the caller can be paused here, that is, whether it holds no
// lock. It decides this by the names of the functions on the stack.
func canPause() (can bool) {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		for _, name := range pauseNot {
			if strings.Contains(f.Function, name) {
				return false
			}
		}
		for _, name := range pauseIn {
			can = can || strings.Contains(f.Function, name)
		}
		if !more {
			return can
		}
	}
}
