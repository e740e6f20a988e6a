package tenure

import (
	"context"
	"time"
)

// modelClock is a machine's two clocks. In a bounded world, the wall clock is off by at
// most epsilon. Its error is drawn again from time to time, and is at an extreme more
// often than not. The monotonic clock drifts by up to 200 ppm. In any other world, the
// wall clock may be hours off, and the monotonic clock runs up to a tenth too fast or too
// slow.
type modelClock struct {
	context.Context // a generator call that waits is given up after a while
	p               *process
	began           int64
	ppm             int64
	offset          int64
	ended           bool // the call in progress has been given up
}

func newModelClock(p *process) *modelClock {
	c := &modelClock{Context: context.Background(), p: p, began: p.w.now - p.w.r.Int64N(int64(time.Hour))}
	c.ppm = []int64{0, -200, 200}[p.w.r.IntN(3)]
	if !p.w.bounded {
		c.ppm = p.w.r.Int64N(200_000) - 100_000
	}
	c.reset()
	return c
}

// reset sets the wall clock.
func (c *modelClock) reset() {
	r, e := c.p.w.r, int64(c.p.w.epsilon)
	if !c.p.w.bounded {
		// The error may have any size, from milliseconds to two days.
		e = int64(time.Millisecond) << r.IntN(28)
		if r.IntN(4) > 0 {
			e = int64(time.Second)
		}
	}
	switch r.IntN(5) {
	case 0, 1:
		c.offset = e
	case 2, 3:
		c.offset = -e
	case 4:
		c.offset = r.Int64N(2*e+1) - e
	}
}

func (c *modelClock) Wall() time.Time {
	if c.p.w.chance(c.p.w.restless) {
		c.reset()
	}
	t := c.wall()
	c.p.w.inside(c.p)
	return t
}

func (c *modelClock) wall() time.Time { return time.Unix(0, c.p.w.now+c.offset) }

// read returns the monotonic clock's time.
func (c *modelClock) read() time.Duration {
	d := c.p.w.now - c.began
	return time.Duration(d + d/1_000_000*c.ppm)
}

func (c *modelClock) Monotonic() time.Duration {
	t := c.read()
	c.p.w.inside(c.p)
	return t
}

// Sleep makes a generator call wait.
func (c *modelClock) Sleep(d time.Duration) {
	c.p.asleep = true
	defer func() { c.p.asleep = false }()
	c.p.w.now += int64(d) + c.p.w.r.Int64N(int64(d)+1)
	c.p.w.inside(c.p)
}

// Err ends some calls that have waited: a generator calls Err after each wait.
func (c *modelClock) Err() error {
	if c.ended = c.ended || c.p.w.r.IntN(8) == 0; c.ended {
		return context.DeadlineExceeded
	}
	return nil
}
