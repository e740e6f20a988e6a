package demo

import (
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// movedClock is the machine's clock, except that its wall clock is off by an amount that
// can be changed.
type movedClock struct {
	lease.Clock
	off atomic.Int64
}

func newMovedClock(off time.Duration) *movedClock {
	c := &movedClock{Clock: snowflake.SystemClock()}
	c.step(off)
	return c
}

func (c *movedClock) step(by time.Duration) { c.off.Add(int64(by)) }

// Wall implements [lease.Clock].
func (c *movedClock) Wall() time.Time { return c.Clock.Wall().Add(time.Duration(c.off.Load())) }
