package snowflake

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Span is the result of a confirmed claim: the milliseconds of a node ID that
// belong to the holder.
type Span struct {
	NodeID int // 0 … Nodes-1

	// Nodes is the number of node IDs in the pool, which is its highest node ID + 1.
	// New returns an error for a layout with fewer node IDs. 0 means NodeID + 1.
	Nodes int

	// Eras are the widths of the node ID over time. If a width is less than the
	// layout's node bits, the free node bits extend the sequence. Every holder in the
	// pool must use the same Eras. Without Eras, the node ID has all of the layout's
	// node bits.
	Eras Eras

	// All stamps are after NotBefore, and at or before Until. A zero NotBefore means
	// no lower bound.
	NotBefore, Until time.Time

	// Deadline is a reading of Clock.Monotonic: a call that begins at or after it
	// fails. math.MaxInt64 means no deadline.
	Deadline time.Duration

	// Unrecorded means that the node ID's next holder cannot find out where this
	// holder stopped, and begins at the wall clock. So on this timeline, from the
	// Bind on, no stamp is ahead of the wall clock, and WithMaxBackward is treated as
	// 0.
	Unrecorded bool

	// Ceiling bounds stamps while the wall clock is ahead; see SetCeiling. The zero
	// Ceiling means no bound.
	Ceiling Ceiling
}

// Ceiling is an upper bound of stamps that moves with the monotonic clock: when
// Clock.Monotonic reads Mono, no stamp is after At, and later the bound advances
// with that clock. Because of the ceiling, stamps cannot be hours ahead even if
// the span is hours long. The holder sets At to the time of its clock when it sent
// the last confirmed renewal, plus the time to live of the lease and the
// claimants' guard. It sets Mono to the monotonic reading at that moment. Calls do
// not fail while the wall clock is above the ceiling: stamps advance with the
// monotonic clock.
type Ceiling struct {
	At   time.Time
	Mono time.Duration
}

// anchor converts the ceiling to an anchor, in Unix ns at monotonic 0. It returns
// the largest int64 if there is no ceiling.
func (c Ceiling) anchor() int64 {
	if c.At.IsZero() {
		return math.MaxInt64
	}
	at, mono := msToNs(c.At.UnixMilli()), int64(c.Mono)
	switch {
	case mono < 0 && at > math.MaxInt64+mono:
		return math.MaxInt64
	case mono > 0 && at < lowest+mono:
		return lowest
	}
	return max(at-mono, lowest)
}

// lowest is an anchor before every epoch whose distance from any epoch still fits
// an int64.
const lowest = -1 << 60

// nextMs returns the millisecond after ms, or ms itself if it is the largest
// int64.
func nextMs(ms int64) int64 { return max(ms, ms+1) }

// msToNs converts milliseconds to nanoseconds, and saturates at both ends.
func msToNs(ms int64) int64 {
	const most = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case ms > most:
		return math.MaxInt64
	case ms < -most:
		return math.MinInt64
	}
	return ms * int64(time.Millisecond)
}

// check returns an error with all problems of s for the layout l, which may be
// nil.
func (s Span) check(l *Layout) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case s.NodeID < 0 || s.NodeID == math.MaxInt:
		bad("node ID %d is out of range; use 0 to 65535", s.NodeID)
	case s.NodeID >= s.Nodes:
		bad("node ID %d is not in a pool of %d (0 to %d)", s.NodeID, s.Nodes, s.Nodes-1)
	}
	if s.Until.Before(s.NotBefore) {
		bad("the span ends (%v) before it begins (%v)", s.Until, s.NotBefore)
	}
	if err := s.Eras.check(s.NodeID, s.NotBefore); err != nil {
		errs = append(errs, err)
	}
	if l != nil && s.Nodes > l.Nodes() {
		bad("a pool of %d node IDs does not fit a layout with %d node bits (%d); it needs %d, in every process that makes IDs of this pool",
			s.Nodes, l.NodeBits, l.Nodes(), nodeBitsFor(s.Nodes))
	}
	if errs != nil {
		return fmt.Errorf("snowflake: %w", errors.Join(errs...))
	}
	return nil
}

// Forever returns a Span.Until that no layout reaches.
func Forever() time.Time { return time.UnixMilli(math.MaxInt64 / 2) }

// Era is a period in which the node IDs of a pool have one width.
type Era struct {
	// From is the era's first millisecond. The first era also applies before its
	// From.
	From time.Time `json:"from"`
	// NodeBits is the width. If a layout has fewer node bits, all of them are used.
	NodeBits int `json:"node_bits"`
}

// Eras are the widths that the node IDs of a pool have had, oldest first. The
// beginning of an ID's tick determines the width of its node ID, so all IDs of one
// tick have the same width. Therefore two IDs cannot be equal because of a change
// of the width, and each ID can be decoded later. Without eras, the node ID always
// has all of the layout's node bits.
type Eras []Era

// Decompose decodes an ID that was generated with layout l by a node of the pool
// with these eras. Unlike in the result of [Layout.Decompose], Node contains only
// the node ID, and Sequence includes the free node bits.
func (e Eras) Decompose(l Layout, id ID) Parts {
	tick := uint64(id) >> (l.NodeBits + l.SequenceBits)
	width := e.width(l, e.at(l, tick))
	low := uint64(id) & (1<<(l.NodeBits+l.SequenceBits) - 1)
	below := l.SequenceBits // the number of sequence bits below the node ID
	if l.NodeLast {
		below = 0
	}
	return Parts{
		Time:     l.at(tick),
		Node:     int(low >> below & (1<<width - 1)),
		Sequence: int(low>>(below+width)<<below | low&(1<<below-1)),
	}
}

// at returns the index of the era that contains a tick.
func (e Eras) at(l Layout, tick uint64) int {
	ms := l.at(tick).UnixMilli()
	i := len(e) - 1
	for i > 0 && e[i].From.UnixMilli() > ms {
		i--
	}
	return i
}

// width returns the node's width in era i.
func (e Eras) width(l Layout, i int) uint8 {
	if len(e) == 0 {
		return l.NodeBits
	}
	return uint8(min(e[i].NodeBits, int(l.NodeBits)))
}

// firstTick returns the first tick of era i; for the first era, 0.
func (e Eras) firstTick(l Layout, i int) uint64 {
	if i <= 0 {
		return 0
	}
	return l.tickOf(e[i].From.UnixMilli() + l.Tick.Milliseconds() - 1)
}

// check returns an error with all problems of the eras for the holder of nodeID,
// if the holder's span begins after the given time.
func (e Eras) check(nodeID int, after time.Time) error {
	var errs []error
	for i, era := range e {
		if era.NodeBits < 1 || era.NodeBits > 16 {
			errs = append(errs, fmt.Errorf("an era with %d node bits; use 1 to 16", era.NodeBits))
			continue
		}
		if i > 0 && !era.From.After(e[i-1].From) {
			errs = append(errs, fmt.Errorf("an era that begins at %v follows one that begins at %v", era.From, e[i-1].From))
		}
		past := i+1 < len(e) && !e[i+1].From.After(after.Add(time.Millisecond))
		if !past && nodeID >= 1<<era.NodeBits {
			errs = append(errs, fmt.Errorf("node ID %d does not fit the %d node bits of the era from %v", nodeID, era.NodeBits, era.From))
		}
	}
	return errors.Join(errs...)
}
