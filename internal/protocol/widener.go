package protocol

import (
	"errors"
	"time"
)

// The steps of a widening, without requests or clocks: leasepool.Widen runs them
// against a table, and the model in proof runs them against its own world.

const (
	// markPace is how long a widener takes to mark one node ID, at most.
	markPace = 2 * time.Millisecond
	// longestAtLeast is how far ahead a holder is assumed to reserve, even if no
	// reservation is visible.
	longestAtLeast = DefaultTTL + DefaultTTL/10
)

var (
	// ErrReserved is returned by [Widener.Heard] when a node ID is reserved beyond the
	// beginning of the new width: this try fails.
	ErrReserved = errors.New("a node ID is reserved beyond the beginning of the new width")
	// ErrSuperseded is returned by [Widener.Heard] when a newer try has begun.
	ErrSuperseded = errors.New("a newer try has begun")
	// ErrVanished is returned by [Widener.Heard] when a node ID has no item after its mark.
	ErrVanished = errors.New("a node ID vanished while it was marked")
	// ErrRefused is returned by [Widener.Heard] when a mark was refused although nothing in
	// the item forbids it, so that every further try would fail as well.
	ErrRefused = errors.New("its mark is refused for no reason that its item shows: something other than Nodelease wrote it")
)

// NextBits returns the width that the pool's node IDs should have, and whether it is
// larger than the present one.
func (p PoolItem) NextBits() (bits int, wider bool) {
	bits = BitsFor(p.OpenGroups)
	return bits, p.Narrow() && p.Bits() < bits
}

// NextTry returns the write that opens the next try of p. leases has all node IDs of p, none of
// them read before at. slack is how much later than necessary the new width begins.
func NextTry(p PoolItem, leases []Lease, at time.Time, slack time.Duration) BeginWiden {
	ahead, last := longestAtLeast, at
	for _, l := range leases {
		last = Latest(last, l.ReservedUntil)
		if l.Holder != "" { // its renewals within the next half lease reserve this far ahead
			ahead = max(ahead, l.ReservedUntil.Sub(at)+l.TTL/2)
		}
	}
	// All node IDs must be marked before E, the beginning of the new width, and no holder
	// may reserve E before its node ID is marked.
	marking := time.Duration(p.ExistBelow) * markPace
	from := Latest(Latest(at.Add(ahead), last), p.Changed()).Add(marking + slack)
	bits, _ := p.NextBits()
	return BeginWiden{Pool: p.Pool, Try: p.Widening.Try + 1, Seen: p.Widening.State, From: Trunc(from), Bits: bits, ExistBelow: p.ExistBelow}
}

// Opened reports whether the try of w is open in p, as begun. It compares the item: if w
// was sent more than once, the last attempt may be refused although an earlier one was
// applied.
func (w BeginWiden) Opened(p PoolItem) bool {
	return p.Widening == Widening{Try: w.Try, From: Trunc(w.From), Bits: w.Bits, State: WidenOpen}
}

// Missing returns the write that adds the node IDs that a narrow pool p lacks for a size, as
// far as its width has room for them; false if the pool lacks none.
func Missing(p PoolItem, size int) (AddNodeIDs, bool) {
	to := min(size, 1<<p.Bits())
	return AddNodeIDs{Pool: p.Pool, From: p.ExistBelow, To: to, Try: p.Widening.Try}, to > p.ExistBelow
}

// SeedOf returns the write that creates a node ID of p. The node ID begins no earlier than
// the latest of floor, the floor of the pool, and the pool's last change of the width.
func SeedOf(p PoolItem, node int, floor time.Time) Seed {
	return Seed{Key: Key{p.Pool, node}, Floor: p.floor(floor), WidenTry: p.Widening.Try}
}

func (p PoolItem) floor(at time.Time) time.Time { return Latest(Latest(at, p.Floor), p.Changed()) }

// Widener marks the node IDs of an open try. It must be created from an item in which the
// try is open, not from an older item: while the try is open, no node IDs are added, so the
// item covers all node IDs that need the mark. A Widener is not safe for concurrent use.
type Widener struct {
	pool PoolItem
	left map[int]bool
}

// NewWidener returns the widener of the try that is open in p, or nil if none is.
func NewWidener(p PoolItem) *Widener {
	if !p.Narrow() || p.Widening.State != WidenOpen {
		return nil
	}
	w := &Widener{pool: p, left: map[int]bool{}}
	for node := p.ExcludeBelow; node < p.ExistBelow; node++ {
		w.left[node] = true
	}
	return w
}

// Pool returns the item from which the widener was created.
func (w *Widener) Pool() PoolItem { return w.pool }

// Found notes that the node ID of l need not be marked, if l already has the mark.
func (w *Widener) Found(l Lease) {
	if l.WidenTry == w.pool.Widening.Try {
		delete(w.left, l.NodeID)
	}
}

// Left reports whether a node ID still needs the mark.
func (w *Widener) Left(node int) bool { return w.left[node] }

// Mark returns the write that marks a node ID. If the item does not exist, the write
// creates it as if it had been seeded at the given time.
func (w *Widener) Mark(node int, at time.Time) Mark {
	return Mark{Key: Key{w.pool.Pool, node}, Try: w.pool.Widening.Try, From: w.pool.Widening.From, Floor: w.pool.floor(at)}
}

// Heard processes the answer to a mark. An error means that the try fails.
func (w *Widener) Heard(m Mark, res Result) error {
	switch {
	case m.Try != w.pool.Widening.Try:
		return nil
	case res.Lease == nil:
		return ErrVanished
	case res.Lease.WidenTry > m.Try:
		return ErrSuperseded
	case res.Lease.WidenTry == m.Try: // by this write, by another widener, or by a request whose answer was lost
		delete(w.left, m.NodeID)
		return nil
	case res.Lease.ReservedUntil.Before(m.From):
		return ErrRefused
	}
	return ErrReserved
}

// Commit returns the write that commits the try; false while any node ID is not marked.
func (w *Widener) Commit() (CommitWiden, bool) {
	t := w.pool.Widening
	return CommitWiden{Pool: w.pool.Pool, Try: t.Try, From: t.From, Bits: t.Bits}, len(w.left) == 0
}

// Void returns the write that ends the try without effect.
func (w *Widener) Void() VoidWiden {
	return VoidWiden{Pool: w.pool.Pool, Try: w.pool.Widening.Try}
}
