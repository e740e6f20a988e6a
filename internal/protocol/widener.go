package protocol

import (
	"errors"
	"time"
)

// The steps of a widening, without a request or a clock of their own: leasepool.Widen
// runs them against a table, and the model against its own world.

const (
	// markPace is how long a widener takes to mark one node ID, at most.
	markPace = 2 * time.Millisecond
	// longestAtLeast is taken for what a holder reserves where none is to be seen.
	longestAtLeast = DefaultTTL + DefaultTTL/10
)

var (
	// ErrReserved is returned by [Widener.Heard] when a node ID is reserved beyond the
	// beginning of the new width: this try comes to nothing.
	ErrReserved = errors.New("a node ID is reserved beyond the beginning of the new width")
	// ErrSuperseded is returned by [Widener.Heard] when a newer try has begun.
	ErrSuperseded = errors.New("a newer try has begun")
	// ErrVanished is returned by [Widener.Heard] when a node ID has no item after its mark.
	ErrVanished = errors.New("a node ID vanished while it was marked")
)

// NextBits is the width that the pool's node IDs should have, and whether it is more
// than they have.
func (p PoolItem) NextBits() (bits int, wider bool) {
	bits = BitsFor(p.OpenGroups)
	return bits, p.Narrow() && p.Bits() < bits
}

// Begin returns the write that opens the next try, for a widener that has read all
// node IDs of p since a time. Slack is how much later than needed the new width begins.
func (p PoolItem) Begin(leases []Lease, at time.Time, slack time.Duration) BeginWiden {
	ahead, last := longestAtLeast, at
	for _, l := range leases {
		last = Latest(last, l.ReservedUntil)
		if l.Holder != "" { // its next renewals reserve that much, up to half a lease later
			ahead = max(ahead, l.ReservedUntil.Sub(at)+l.TTL/2)
		}
	}
	// Before E all node IDs must be marked, and no holder may have come to it.
	marking := time.Duration(p.Numbers) * markPace
	from := Latest(Latest(at.Add(ahead), last), p.Changed()).Add(marking + slack)
	bits, _ := p.NextBits()
	return BeginWiden{Pool: p.Pool, Try: p.Widening.Try + 1, Seen: p.Widening.State, From: Trunc(from), Bits: bits, Numbers: p.Numbers}
}

// Opened reports whether p has the try of w open, as it was begun. It asks the item
// and not whether the write was applied, since a repeated request may have been.
func (w BeginWiden) Opened(p PoolItem) bool {
	return p.Widening == Widening{Try: w.Try, From: Trunc(w.From), Bits: w.Bits, State: WidenOpen}
}

// Missing returns the write that lets a narrow pool have the node IDs of a size, as
// far as its width has room for them; false if it has them already.
func (p PoolItem) Missing(size int) (AddNumbers, bool) {
	to := min(size, 1<<p.Bits())
	return AddNumbers{Pool: p.Pool, From: p.Numbers, To: to, Try: p.Widening.Try}, to > p.Numbers
}

// SeedOf returns the write that creates a node ID of p. One of a wider width is
// nobody's before that begins, and none begins before the floor of the pool.
func (p PoolItem) SeedOf(node int, floor time.Time) Seed {
	return Seed{Key: Key{p.Pool, node}, Floor: p.floor(floor), WidenTry: p.Widening.Try}
}

func (p PoolItem) floor(at time.Time) time.Time { return Latest(Latest(at, p.Floor), p.Changed()) }

// Widener marks the node IDs of an open try. It is made of the item in which the try
// is open, and of no older one: while the try is open no node IDs are added, so that
// item has all that need the mark. It is not safe for concurrent use.
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
	for node := p.ExcludeBelow; node < p.Numbers; node++ {
		w.left[node] = true
	}
	return w
}

// Pool returns the item that the widener was made of.
func (w *Widener) Pool() PoolItem { return w.pool }

// Found counts the node IDs that have the mark already.
func (w *Widener) Found(l Lease) {
	if l.WidenTry == w.pool.Widening.Try {
		delete(w.left, l.NodeID)
	}
}

// Left reports whether a node ID is to be marked still.
func (w *Widener) Left(node int) bool { return w.left[node] }

// Mark returns the write that marks a node ID. One that does not exist is created by
// it and begins as if it were seeded at a time.
func (w *Widener) Mark(node int, at time.Time) Mark {
	return Mark{Key: Key{w.pool.Pool, node}, Try: w.pool.Widening.Try, From: w.pool.Widening.From, Floor: w.pool.floor(at)}
}

// Heard takes the answer to a mark. The error says that the try comes to nothing.
func (w *Widener) Heard(m Mark, res Result) error {
	switch {
	case m.Try != w.pool.Widening.Try:
		return nil
	case res.Lease == nil:
		return ErrVanished
	case res.Lease.WidenTry > m.Try:
		return ErrSuperseded
	case res.Lease.WidenTry == m.Try: // by this write, by someone else, or by a request whose answer was lost
		delete(w.left, m.NodeID)
		return nil
	}
	return ErrReserved
}

// Commit returns the write that makes the try real; false while a node ID is left.
func (w *Widener) Commit() (CommitWiden, bool) {
	t := w.pool.Widening
	return CommitWiden{Pool: w.pool.Pool, Try: t.Try, From: t.From, Bits: t.Bits}, len(w.left) == 0
}

// Void returns the write that ends the try without effect.
func (w *Widener) Void() VoidWiden {
	return VoidWiden{Pool: w.pool.Pool, Try: w.pool.Widening.Try}
}
