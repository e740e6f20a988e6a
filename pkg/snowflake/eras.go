package snowflake

import (
	"errors"
	"fmt"
	"time"
)

// Era is a stretch of time in which the node IDs of a pool have one width.
type Era struct {
	// From is the era's first millisecond. The first era of all counts before it too.
	From time.Time `json:"from"`
	// NodeBits is the width. A layout with fewer node bits uses all that it has.
	NodeBits int `json:"node_bits"`
}

// Eras are the widths that the node IDs of a pool have had, oldest first. The
// width of an ID follows from its own tick, by when that begins, so every ID of
// one tick has one layout: no two are equal across a change, and each can be
// taken apart later. No eras stand for all of the layout's node bits, always.
type Eras []Era

// Decompose takes an ID apart that was made in layout l by a node of the pool
// whose eras these are. Node is the node ID alone and Sequence has the bits that
// the node's width left free, unlike with [Layout.Decompose].
func (e Eras) Decompose(l Layout, id ID) Parts {
	tick := uint64(id) >> (l.NodeBits + l.SequenceBits)
	width := e.width(l, e.at(l, tick))
	low := uint64(id) & (1<<(l.NodeBits+l.SequenceBits) - 1)
	below := l.SequenceBits // the sequence's bits below the node
	if l.NodeLast {
		below = 0
	}
	return Parts{
		Time:     l.at(tick),
		Node:     int(low >> below & (1<<width - 1)),
		Sequence: int(low>>(below+width)<<below | low&(1<<below-1)),
	}
}

// at is which era a tick is in.
func (e Eras) at(l Layout, tick uint64) int {
	ms := l.at(tick).UnixMilli()
	i := len(e) - 1
	for i > 0 && e[i].From.UnixMilli() > ms {
		i--
	}
	return i
}

// width is the node's width in era i.
func (e Eras) width(l Layout, i int) uint8 {
	if len(e) == 0 {
		return l.NodeBits
	}
	return uint8(min(e[i].NodeBits, int(l.NodeBits)))
}

// firstTick is the first tick of era i; that of the first era is 0.
func (e Eras) firstTick(l Layout, i int) uint64 {
	if i <= 0 {
		return 0
	}
	return l.tickOf(e[i].From.UnixMilli() + l.Tick.Milliseconds() - 1)
}

// check tells all that is wrong with the eras of a holder of a node ID whose span
// begins after a moment.
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
