package snowflake

import (
	"errors"
	"math"
	"testing"
	"time"
)

// stepped is a clock whose wall clock can be set. When a call waits, both clocks
// advance.
type stepped struct {
	wall time.Time
	mono time.Duration
}

func (c *stepped) Wall() time.Time          { return c.wall }
func (c *stepped) Monotonic() time.Duration { return c.mono }
func (c *stepped) Sleep(d time.Duration)    { c.wall, c.mono = c.wall.Add(d), c.mono+d }

// A process with a fixed node ID runs twice. The wall clock steps back during
// the first run, but not between the runs. The second run repeats no ID of the
// first run.
func TestUnrecordedRunsMakeNoIDTwice(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond, 1500 * time.Millisecond} {
		clock := &stepped{wall: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
		seen := map[ID]bool{}
		for run := range 2 {
			clock.mono = 0
			tl := NewTimeline(clock)
			if err := tl.Bind(Span{NodeID: 7, Until: Forever(), Deadline: math.MaxInt64, Unrecorded: true}); err != nil {
				t.Fatal(err)
			}
			g, err := New(tl, WithMaxBackward(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 1000 {
				if run == 0 && i == 500 {
					clock.wall = clock.wall.Add(-step)
				}
				clock.Sleep(time.Millisecond)
				id, err := g.Next()
				if seen[id] {
					t.Fatalf("a step of %v: run %d made ID %d of %v again", step, run, id, id.Time())
				}
				var behind *ClockError
				if err != nil && !errors.As(err, &behind) {
					t.Fatalf("a step of %v: got %v, want an ID or a ClockError", step, err)
				}
				seen[id] = err == nil
			}
			if borrow := g.Stats().Borrow; borrow != 0 {
				t.Errorf("a step of %v: got stamps %v ahead of the wall clock, want none", step, borrow)
			}
			clock.Sleep(time.Millisecond)
		}
	}
}
