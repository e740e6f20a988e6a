package snowflake

import (
	"testing"
	"testing/synctest"
	"time"
)

// A suspend that was found counts as time passed for every call: what time.Since
// lacks is added. (A tick of 10 ms, so that the call after the suspend is in the
// tick of the one before it by the clock that stood still.)
func TestSuspendCountsAsTimePassed(t *testing.T) {
	const gap = time.Minute
	for name, call := range map[string]func(*Generator) func() (ID, error){
		"Next":        func(g *Generator) func() (ID, error) { return g.Next },
		"NextContext": func(g *Generator) func() (ID, error) { return func() (ID, error) { return g.NextContext(t.Context()) } },
		"TryNext":     func(g *Generator) func() (ID, error) { return g.TryNext },
		"Block":       func(g *Generator) func() (ID, error) { return g.Block().Next },
	} {
		tl := NewTimeline(nil)
		if err := tl.Bind(Span{NodeID: 7, Until: Forever(), Deadline: SystemClock().Monotonic() + gap/2}); err != nil {
			t.Fatal(err)
		}
		g, err := New(tl, WithLayout(Sonyflake()))
		if err != nil {
			t.Fatal(err)
		}
		f := call(g)
		if _, err := f(); err != nil {
			t.Fatal(name, err)
		}
		suspended.Add(int64(gap))
		if id, err := f(); err != ErrFenced {
			t.Errorf("%s: %d, %v", name, id, err)
		}
		suspended.Add(-int64(gap)) // no other test has a timeline now
	}
}

func TestLooksForSuspends(t *testing.T) {
	gap := suspendedSinceStart()
	if gap < -int64(time.Second) || gap > int64(time.Second) { // this machine does not sleep now
		t.Errorf("suspended for %v", time.Duration(gap))
	}
	// In a bubble the time since origin is decades: the next look outside comes
	// all the same.
	synctest.Test(t, func(*testing.T) { lookForSuspend(time.Since(origin)) })
	in := looked.Load()
	lookForSuspend(time.Since(origin))
	if looked.Load() == in {
		t.Error("no look after one in a bubble")
	}
}

// With an injected clock a wait is a time.Sleep from the first: in a bubble a
// thread that sleeps on its own would be seen by its time standing still.
func TestInjectedClockSleepsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl, start := NewTimeline(bubbleClock{}), time.Now()
		tl.sleep(time.Millisecond)
		if tl.gate.virtual.Load() || time.Since(start) != time.Millisecond {
			t.Errorf("slept for %v", time.Since(start))
		}
	})
}

type bubbleClock struct{}

func (bubbleClock) Wall() time.Time          { return time.Now() }
func (bubbleClock) Monotonic() time.Duration { return time.Since(origin) }
