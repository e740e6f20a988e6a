package snowflake

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Span is what a claim has confirmed: which milliseconds of which number are the
// holder's.
type Span struct {
	NodeID int // 0 … Nodes-1

	// Nodes is how many numbers the pool has, its highest + 1. New refuses a
	// layout into which they do not fit. 0 stands for NodeID + 1.
	Nodes int

	// Eras are the widths of the node ID at run time; the node bits of the layout
	// that they leave free lengthen the sequence. Every holder of the pool must use
	// the same. None stand for all of the layout's.
	Eras Eras

	// Stamps are milliseconds after NotBefore, up to and including Until. A zero
	// NotBefore is no lower end.
	NotBefore, Until time.Time

	// Deadline is a reading of Clock.Monotonic: a call that begins at or after it
	// fails. math.MaxInt64 stands for none.
	Deadline time.Duration
}

// check tells everything that is wrong with s in the layout, which may be nil.
func (s Span) check(l *Layout) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.NodeID < 0 || s.NodeID >= s.Nodes {
		bad("node ID %d is not in a pool of %d (0 to %d)", s.NodeID, s.Nodes, s.Nodes-1)
	}
	if s.Until.Before(s.NotBefore) {
		bad("the span ends (%v) before it begins (%v)", s.Until, s.NotBefore)
	}
	if err := s.Eras.check(s.NodeID, s.NotBefore); err != nil {
		errs = append(errs, err)
	}
	if l != nil && s.Nodes > l.Nodes() {
		bad("a pool of %d node IDs does not fit a layout with %d node bits (%d); use WithLayout with %d",
			s.Nodes, l.NodeBits, l.Nodes(), nodeBitsFor(s.Nodes))
	}
	if errs != nil {
		return fmt.Errorf("snowflake: %w", errors.Join(errs...))
	}
	return nil
}

// Forever is a Span.Until that no layout reaches.
func Forever() time.Time { return time.UnixMilli(math.MaxInt64 / 2) }
