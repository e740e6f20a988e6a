// Package snowflaketest provides a clock with which generators make the same IDs
// in every run, for tests that compare IDs with expected values.
//
//	clock := snowflaketest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
//	ids, err := snowflake.New(clock.Node(7))
//	id, err := ids.Next() // 132680284897308672, each time
//
// Nothing waits: when the sequence of a tick is used up, the clock advances by
// itself.
package snowflaketest

import (
	"math"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Clock is a snowflake.Clock that moves only when Advance, Step or Sleep is
// called. It is safe for concurrent use.
type Clock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

// NewClock returns a clock whose wall clock is at start, which should be after
// the layout's epoch.
func NewClock(start time.Time) *Clock { return &Clock{wall: start} }

// Node returns a node on this clock that keeps nodeID forever. It panics if
// nodeID is negative.
func (c *Clock) Node(nodeID int) snowflake.Node {
	t := snowflake.NewTimeline(c)
	err := t.Bind(snowflake.Span{NodeID: nodeID, Until: snowflake.Forever(), Deadline: math.MaxInt64})
	if err != nil {
		panic(err)
	}
	return t
}

// Wall returns the civil time.
func (c *Clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Monotonic returns the total time by which the clock was advanced.
func (c *Clock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

// Advance moves both clocks forward by d. It panics if d is negative.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("snowflaketest: Advance by " + d.String() + "; Step moves the wall clock back")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

// Step sets the wall clock forward by d, or back if d is negative. It does not
// move the monotonic clock.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// Sleep calls Advance. A generator that has to wait calls Sleep instead of
// waiting.
func (c *Clock) Sleep(d time.Duration) { c.Advance(d) }
