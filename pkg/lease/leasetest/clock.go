package leasetest

import (
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Clock is this machine's clock, except that its wall clock is off by an offset that Step
// changes. A nil or zero Clock reads this machine's clocks; Step has no effect on a nil
// Clock.
type Clock struct {
	lease.Clock
	mu     sync.Mutex
	offset time.Duration
}

// NewClock returns a clock whose wall clock is off by offset.
func NewClock(offset time.Duration) *Clock {
	return &Clock{Clock: snowflake.SystemClock(), offset: offset}
}

// Step sets the wall clock forward by a duration, or back if the duration is negative.
func (c *Clock) Step(by time.Duration) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += by
}

// Wall implements [snowflake.Clock].
func (c *Clock) Wall() time.Time {
	if c == nil {
		return c.machine().Wall()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine().Wall().Add(c.offset)
}

// Monotonic implements [snowflake.Clock].
func (c *Clock) Monotonic() time.Duration { return c.machine().Monotonic() }

func (c *Clock) machine() lease.Clock {
	if c == nil || c.Clock == nil {
		return snowflake.SystemClock()
	}
	return c.Clock
}
