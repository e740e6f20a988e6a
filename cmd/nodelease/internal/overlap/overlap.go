// Package overlap finds pools that can make equal IDs.
package overlap

import (
	"math"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Makers describes the node IDs of a pool that can be used to make IDs, or may have been
// used since the pool was created: the node IDs in use, and the retired node IDs that are
// still held.
type Makers struct {
	Item     leasepool.Item
	Retiring []int // retired and still held
}

// CanCollide reports whether two pools can make equal IDs. Comparing node IDs would not
// be enough: in a narrow pool the sequence extends into bits that contain the node ID in
// another pool, and the position of the node ID depends on the layout. A pool without a
// layout is treated as if it had the default layout for its size. If IDs of the two pools
// could differ only in their times, CanCollide reports true.
func (m Makers) CanCollide(o Makers) bool {
	a, b := m.layout(), o.layout()
	lowA, lowB := a.NodeBits+a.SequenceBits, b.NodeBits+b.SequenceBits
	for _, x := range m.eras(a) {
		for _, y := range o.eras(b) {
			if x.first > y.last || y.first > x.last {
				continue // these IDs are never equal
			}
			if lowA != lowB || x.meets(y) {
				return true
			}
		}
	}
	return false
}

// layout returns the layout of the pool's IDs, or the layout that the first agent would
// bind.
func (m Makers) layout() snowflake.Layout {
	switch {
	case m.Item.Layout != nil:
		return m.Item.Layout.Snowflake()
	case m.Item.LayoutBefore != nil:
		return m.Item.LayoutBefore.Snowflake()
	case m.Item.Size > snowflake.Default().Nodes():
		return snowflake.Wide16()
	}
	return snowflake.Default()
}

// made describes the IDs that can be made while the node IDs have one width.
type made struct {
	first, last snowflake.ID
	at, width   uint8 // of the node ID in the ID, from the lowest bit
	nodes       []int
}

// eras returns one range of IDs for each width that the pool has had or may have later.
func (m Makers) eras(l snowflake.Layout) []made {
	begin := m.Item.CreatedAt
	if begin.IsZero() {
		begin = l.Epoch
	}
	at := l.SequenceBits
	if l.NodeLast {
		at = 0
	}
	era := func(from, to time.Time, width int) made {
		e := made{first: l.First(protocol.Latest(from, begin)), last: l.Last(to), at: at, width: uint8(min(width, int(l.NodeBits)))} //nolint:gosec // it is at most 16
		for n := m.Item.ExcludeBelow; n < min(m.Item.Size, 1<<e.width); n++ {
			e.nodes = append(e.nodes, n)
		}
		for _, n := range m.Retiring {
			if n < 1<<e.width {
				e.nodes = append(e.nodes, n)
			}
		}
		return e
	}
	if !m.Item.Narrow() {
		return []made{era(begin, l.Expires(), int(l.NodeBits))}
	}
	var all []made
	eras := m.Item.Eras
	for i, e := range eras {
		to := l.Expires()
		if i+1 < len(eras) {
			to = eras[i+1].From
		}
		all = append(all, era(e.From, to, e.NodeBits))
	}
	for width := m.Item.Bits() + 1; width <= protocol.BitsFor(m.Item.Groups()); width++ {
		all = append(all, era(m.Item.Changed(), l.Expires(), width))
	}
	return all
}

// meets reports whether an ID of m and an ID of o can be equal in all bits below their
// times. Bits outside the node ID may have any value, so only bits that belong to the
// node ID in both m and o can distinguish the IDs.
func (m made) meets(o made) bool {
	low, high := max(m.at, o.at), min(m.at+m.width, o.at+o.width)
	if low >= high {
		return len(m.nodes) > 0 && len(o.nodes) > 0
	}
	shared := func(e made, node int) int { return node >> (low - e.at) & (math.MaxInt >> (63 - (high - low))) }
	seen := map[int]bool{}
	for _, n := range m.nodes {
		seen[shared(m, n)] = true
	}
	for _, n := range o.nodes {
		if seen[shared(o, n)] {
			return true
		}
	}
	return false
}
