package protocol

import (
	"math/bits"
	"slices"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Widening. A narrow pool's node IDs have only the bits that its open groups need,
// and the layout's other node bits lengthen the sequence. When more groups are
// opened the width changes, at one millisecond E for everybody, while the fleet
// makes IDs:
//
//	        Begin k (E, bits)      every number is marked with k: Mark
//	done ──────────────────▶ open ──────────────────────────────────▶ done: Commit k
//	 k-1                      │                                        the new width from E on
//	                          └──▶ void: someone cannot wait, or a number is reserved to E or beyond
//
// A number that is marked with k can be claimed and renewed only by who knows of
// try k. While k is open, who knows of it reserves nothing from E on, and stamps
// the old width. A number is marked only while nothing from E on is reserved. So
// when all are marked, nobody can stamp E or later without having read the pool's
// item again, after the commit. proof/spec/Widening.tla is this, with its mutants.

// Widening is the latest try to change the width of a pool's node IDs. It is the
// zero value where the width is fixed.
type Widening struct {
	Try   int64      `json:"try"`   // 0: the pool as it was made
	From  time.Time  `json:"from"`  // E, the first millisecond of the new width
	Bits  int        `json:"bits"`  // the new width
	State WidenState `json:"state"` // only WidenDone makes it real
}

// WidenState is what became of a try.
type WidenState string

// The states of a try.
const (
	WidenOpen WidenState = "open"
	WidenVoid WidenState = "void"
	WidenDone WidenState = "done"
)

// Narrow reports whether the width follows the open groups.
func (p PoolItem) Narrow() bool { return len(p.Eras) > 0 }

// Bits is the width that was committed last.
func (p PoolItem) Bits() int { return p.Eras[len(p.Eras)-1].NodeBits }

// Changed is when the width last changed, or will.
func (p PoolItem) Changed() time.Time {
	if !p.Narrow() {
		return time.Time{}
	}
	return p.Eras[len(p.Eras)-1].From
}

// BitsFor is the width for so many groups: 8 bits for the number inside of its
// group, and the length of their number. That is a bit more than they need as
// soon as they are a power of two: head-room, for the next groups can be used
// while the fleet learns of a new width.
func BitsFor(groups int) int { return min(8+bits.Len(uint(max(groups, 1))), 16) }

// Cap is the last millisecond that may be reserved while a try is open; zero when
// none is.
func (p PoolItem) Cap() time.Time {
	if p.Widening.State != WidenOpen {
		return time.Time{}
	}
	return p.Widening.From.Add(-time.Millisecond)
}

// Capped cuts a time to reserve to what is allowed.
func (p PoolItem) Capped(until time.Time) time.Time {
	if end := p.Cap(); !end.IsZero() && until.After(end) {
		return end
	}
	return until
}

// BeginWiden opens a try, from From on. It is pinned on the try before it and on
// what had become of that, as the widener saw it.
type BeginWiden struct {
	Pool string
	Try  int64 // the one before it + 1
	Seen WidenState
	From time.Time
	Bits int
	// Numbers as seen: all of them are to be marked, and no reservation on them is
	// beyond From.
	Numbers int
}

// PoolName implements [PoolWrite].
func (w BeginWiden) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w BeginWiden) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || !old.Narrow() || old.Widening.Try != w.Try-1 || old.Widening.State != w.Seen || old.Numbers != w.Numbers {
		return PoolItem{}, false
	}
	p := *old
	p.Widening = Widening{Try: w.Try, From: Trunc(w.From), Bits: w.Bits, State: WidenOpen}
	p.Revision++
	return p, true
}

// VoidWiden ends a try that is open, without effect.
type VoidWiden struct {
	Pool string
	Try  int64
}

// PoolName implements [PoolWrite].
func (w VoidWiden) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w VoidWiden) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Widening.Try != w.Try || old.Widening.State != WidenOpen {
		return PoolItem{}, false
	}
	p := *old
	p.Widening.State = WidenVoid
	p.Revision++
	return p, true
}

// CommitWiden makes a try real. Whoever sends it has seen every number marked.
type CommitWiden struct {
	Pool string
	Try  int64
	// From and Bits are those of the try, as it was begun.
	From time.Time
	Bits int
}

// PoolName implements [PoolWrite].
func (w CommitWiden) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w CommitWiden) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Widening != (Widening{Try: w.Try, From: Trunc(w.From), Bits: w.Bits, State: WidenOpen}) {
		return PoolItem{}, false
	}
	p := *old
	p.Eras = append(slices.Clone(p.Eras), snowflake.Era{From: Trunc(w.From), NodeBits: w.Bits})
	p.Widening.State = WidenDone
	p.Revision++
	return p, true
}

// AddNumbers lets numbers of a narrow pool come to be, before the first of them
// is seeded. Every later try marks all of them, also those whose seed is late.
type AddNumbers struct {
	Pool     string
	From, To int
	Try      int64 // as seen; it is not open
}

// PoolName implements [PoolWrite].
func (w AddNumbers) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w AddNumbers) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || !old.Narrow() || old.Numbers != w.From || old.Widening.Try != w.Try || old.Widening.State == WidenOpen {
		return PoolItem{}, false
	}
	p := *old
	p.Numbers = w.To
	p.Revision++
	return p, true
}

// Mark lets a number be claimed and renewed only by who knows of a try.
type Mark struct {
	Key
	Try   int64
	From  time.Time // of the try
	Floor time.Time // of a number that is not there: see Seed
}

// Apply implements [Write].
func (w Mark) Apply(old *Lease) (Lease, bool) {
	if old == nil {
		return Lease{Pool: w.Pool, NodeID: w.NodeID, ReservedUntil: Trunc(w.Floor), WidenTry: w.Try}, true
	}
	if old.WidenTry >= w.Try || !old.ReservedUntil.Before(Trunc(w.From)) {
		return Lease{}, false
	}
	l := old.Clone()
	l.WidenTry = w.Try
	return l, true
}
