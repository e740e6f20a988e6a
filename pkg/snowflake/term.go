package snowflake

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// term is a part of a timeline with one node ID, one width and one anchor of the
// clock. When any of these changes, the term is sealed and another term begins.
//
// Callers draw tickets:
//
//	state = tick << seqBits | sequence, the last ticket drawn
//
// The state only grows, and each Add or CompareAndSwap on it yields a ticket
// that no other caller gets. This makes IDs unique.
type term struct {
	// Immutable.
	anchor   int64  // Unix ns at monotonic 0
	offset   int64  // ns since the layout's epoch at monotonic 0
	node     uint64 // shifted to its place
	seqBits  uint8  // bits in a ticket for the sequence and the unused node bits
	lowBits  uint8  // sequence bits below the node
	shift    uint8  // shift of the rest of a ticket: lowBits + node bits in use
	tenMilli bool   // the tick is 10 ms, not 1
	lowMask  uint64
	mark     uint64 // bits that are all 0 in one of 64 tickets, and in the first ticket of each tick
	first    uint64 // state when nothing has been drawn
	era      int    // the era with this width

	generation uint64 // of the machine, when the term began

	// These fields are read by each call and rarely written. deadline and limit
	// only grow, except that sealing sets the deadline to the past.
	deadline atomic.Int64  // monotonic ns: a call that begins at or after it fails
	limit    atomic.Uint64 // the first ticket outside the confirmed span
	wallEnd  atomic.Int64  // Unix ns: the first moment outside the confirmed span
	lag      atomic.Uint64 // ticks that stamps may be behind the clock: 0 except when saturated
	ends     atomic.Uint64 // the first tick of the next era: limit is never beyond it

	// These fields are set when the term is sealed, and are guarded by
	// Timeline.mu.
	last uint64 // last tick stamped
	void bool   // the machine was copied, so another copy may use the same tickets

	_     [128]byte // keeps state alone on its cache line (and its neighbour, which is prefetched)
	state atomic.Uint64
	_     [120]byte
}

// sealed is the state of a term that is over. It is above every limit, and far
// enough below the largest uint64 that late Adds do not make it wrap around.
const sealed = math.MaxUint64 - 1<<40

// unbound is the term of a timeline without a span or layout.
func unbound() *term {
	tm := &term{}
	tm.deadline.Store(math.MinInt64)
	tm.state.Store(sealed)
	return tm
}

// newTerm returns a term in which the ticks up to and including used are used up.
func newTerm(l Layout, nodeID, nodeBits int, anchor int64, used uint64) *term {
	tm := &term{
		anchor:   anchor,
		offset:   anchor - l.Epoch.UnixNano(),
		lowBits:  l.SequenceBits,
		tenMilli: l.Tick == 10*time.Millisecond,
	}
	if l.NodeLast {
		tm.lowBits = 0
	}
	tm.seqBits = l.SequenceBits + l.NodeBits - uint8(nodeBits)
	tm.shift = tm.lowBits + uint8(nodeBits)
	tm.node = uint64(nodeID) << tm.lowBits
	tm.lowMask = 1<<tm.lowBits - 1
	tm.mark = min(uint64(1)<<tm.seqBits, 64) - 1
	tm.first = (used+1)<<tm.seqBits - 1
	tm.state.Store(tm.first)
	return tm
}

// tickAt returns the tick of a monotonic reading. Before the epoch it
// returns a number above every tick of every layout, so that comparisons
// fail.
func (tm *term) tickAt(mono int64) uint64 {
	t := uint64(mono+tm.offset) / uint64(time.Millisecond)
	if tm.tenMilli {
		t /= 10
	}
	return t
}

// begun returns the last tick that has begun at a monotonic reading.
func (tm *term) begun(mono int64) uint64 {
	if mono+tm.offset < 0 {
		return 0
	}
	return tm.tickAt(mono)
}

// until returns the time from mono to the beginning of the tick; it is not
// positive if the tick has begun. If the clock is before the epoch, until
// calculates with the epoch, so that the result fits an int64.
func (tm *term) until(tick uint64, mono int64) time.Duration {
	ns := tick * uint64(time.Millisecond)
	if tm.tenMilli {
		ns *= 10
	}
	return time.Duration(int64(ns) - max(mono+tm.offset, 0))
}

// tickOf returns the tick of a ticket. Because of the mask, the compiler omits
// its check for shifts of 64 and more.
func (tm *term) tickOf(ticket uint64) uint64 { return ticket >> (tm.seqBits & 63) }

// id arranges a ticket's bits around the node's:
//
//	[tick][sequence, high part][node][sequence, low part]
//
// Unused node bits extend the sequence above the node ID, so IDs increase with
// their tickets at any width. At full width, the bits are arranged as in the
// layout.
func (tm *term) id(ticket uint64) ID {
	return ID(ticket>>(tm.lowBits&63)<<(tm.shift&63) | tm.node | ticket&tm.lowMask)
}

// fill fills dst with the IDs of consecutive tickets, starting at first.
func (tm *term) fill(dst []ID, first uint64) {
	for len(dst) > 0 {
		run := min(int(tm.lowMask-first&tm.lowMask)+1, len(dst)) // up to a carry into the high part
		id, part := tm.id(first), dst[:run]
		for i := range part {
			part[i] = id + ID(i)
		}
		dst, first = dst[run:], first+uint64(run)
	}
}

// nodeBitsFor returns the number of bits that are needed for the node IDs 0 …
// nodes-1.
func nodeBitsFor(nodes int) int { return bits.Len(uint(max(nodes-1, 0))) }
