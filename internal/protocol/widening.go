package protocol

import (
	"math/bits"
	"slices"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Widening. A narrow pool's node IDs have only the bits that its open groups need, and
// the layout's other node bits extend the sequence. When more groups are opened the width
// changes, at one millisecond E for everybody, while the fleet makes IDs:
//
//	        Begin k (E, bits)      every node ID is marked with k: Mark
//	done ──────────────────▶ open ──────────────────────────────────▶ done: Commit k
//	 k-1                      │                                        the new width from E on
//	                          └──▶ void: someone cannot wait, or a node ID is reserved to E or beyond
//
// A node ID that is marked with k can be claimed and renewed only by agents that have seen
// try k. While k is open, these agents reserve nothing from E on, and use the old width. A
// node ID is marked only while nothing from E on is reserved for it. So when all are
// marked, no agent can stamp E or later without having read the pool's item again, after
// the commit. proof/spec/Widening.tla specifies this, with its mutants.

// Widening is the latest try to change the width of a pool's node IDs. It is the
// zero value if the width is fixed.
type Widening struct {
	Try   int64      `json:"try"`   // 0: the pool as created
	From  time.Time  `json:"from"`  // E, the first millisecond of the new width
	Bits  int        `json:"bits"`  // the new width
	State WidenState `json:"state"` // the new width takes effect only with WidenDone
}

// WidenState is the outcome of a try.
type WidenState string

// The states of a try.
const (
	WidenOpen WidenState = "open"
	WidenVoid WidenState = "void"
	WidenDone WidenState = "done"
)

// Narrow reports whether the width follows the open groups.
func (p PoolItem) Narrow() bool { return len(p.Eras) > 0 }

// Bits returns the last committed width.
func (p PoolItem) Bits() int { return p.Eras[len(p.Eras)-1].NodeBits }

// Changed returns when the width last changed, or will change.
func (p PoolItem) Changed() time.Time {
	if !p.Narrow() {
		return time.Time{}
	}
	return p.Eras[len(p.Eras)-1].From
}

// BitsFor returns the width for a number of groups: 8 bits for the node ID within its
// group, plus the bit length of the number of groups. If that number is a power of two,
// this is one bit more than needed, as headroom: the next groups can be used while the
// fleet switches to a new width.
func BitsFor(groups int) int { return min(8+bits.Len(uint(max(groups, 1))), 16) }

// Cap returns the last millisecond that may be reserved while a try of p is open; zero
// if none is open.
func Cap(p PoolItem) time.Time {
	if p.Widening.State != WidenOpen {
		return time.Time{}
	}
	return p.Widening.From.Add(-time.Millisecond)
}

// Capped limits a requested reservation to the Cap of p.
func Capped(p PoolItem, until time.Time) time.Time {
	if end := Cap(p); !end.IsZero() && until.After(end) {
		return end
	}
	return until
}

// BeginWiden opens a try, whose width begins at From. It is conditional on the previous
// try and its outcome, as the widener saw them.
type BeginWiden struct {
	Pool string
	Try  int64 // the previous one + 1
	Seen WidenState
	From time.Time
	Bits int
	// ExistBelow is the pool's ExistBelow, as seen: all node IDs below it are to be marked, and
	// none of them is reserved beyond From.
	ExistBelow int
}

// PoolName implements [PoolWrite].
func (w BeginWiden) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w BeginWiden) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || !old.Narrow() || old.Widening.Try != w.Try-1 || old.Widening.State != w.Seen || old.ExistBelow != w.ExistBelow {
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

// CommitWiden commits a try. Its sender has seen every node ID marked.
type CommitWiden struct {
	Pool string
	Try  int64
	// From and Bits are those of the try, as begun.
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

// AddNodeIDs adds node IDs to a narrow pool, before the first of them is seeded. Every
// later try marks all of them, including those that are not seeded yet.
type AddNodeIDs struct {
	Pool     string
	From, To int
	Try      int64 // as seen, when it was not open
}

// PoolName implements [PoolWrite].
func (w AddNodeIDs) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w AddNodeIDs) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || !old.Narrow() || old.ExistBelow != w.From || old.Widening.Try != w.Try || old.Widening.State == WidenOpen {
		return PoolItem{}, false
	}
	p := *old
	p.ExistBelow = w.To
	p.Revision++
	return p, true
}

// Mark marks a node ID with a try: from then on, only agents that have seen the try can
// claim or renew the node ID.
type Mark struct {
	Key
	Try   int64
	From  time.Time // of the try
	Floor time.Time // for a missing node ID: see Seed
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
