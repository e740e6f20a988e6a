package snowflake

import (
	"sync/atomic"
	"time"
)

// Stats counts what the generators on one timeline did since it was made.
type Stats struct {
	Issued  uint64 // IDs handed out, to within those in progress
	Waits   uint64 // times that a call slept until a tick began
	Refused uint64 // calls that ended in an error

	StepsForward uint64        // times that the wall clock was found ahead, and followed
	StepsBack    uint64        // times that the wall clock was found behind, or further behind
	Borrow       time.Duration // how far stamps are ahead of the wall clock now, after a small step back
}

type counters struct {
	waits, refused, stepsForward, stepsBack atomic.Uint64
	skipped                                 atomic.Uint64 // tickets below the state word that nobody has got
}

// Stats tells what happened so far. It costs the calls nothing: what they issued
// is read off the state word.
func (t *Timeline) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, drawn := &t.counters, t.drawn
	if tm := t.term.Load(); t.state == isBound && t.layout != nil {
		drawn += tm.state.Load() - tm.first
	}
	// A call counts the tickets that it skips before it draws the one after them:
	// seen in between, the difference is too small, never too large.
	if issued := drawn - c.skipped.Load(); int64(issued) > int64(t.told) {
		t.told = issued
	}
	return Stats{
		Issued:       t.told,
		Waits:        c.waits.Load(),
		Refused:      c.refused.Load(),
		StepsForward: c.stepsForward.Load(),
		StepsBack:    c.stepsBack.Load(),
		Borrow:       t.borrow,
	}
}
