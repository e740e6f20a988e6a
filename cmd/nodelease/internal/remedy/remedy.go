// Package remedy has the remedies that both `nodelease doctor` and the page of
// `nodelease ui` name.
package remedy

import (
	"fmt"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Deleted is the advice to follow before the words of [Seed].
const Deleted = "if they were deleted, stop every process before seeding again, since their holders can make IDs until their reservations end"

// Seed returns the words of the command that creates the missing node IDs of a pool. Because
// of the floor, no ID is made twice even if clocks were ahead.
func Seed(p protocol.PoolItem) string {
	words := fmt.Sprintf("seed --size %d --floor +1m", p.Size)
	if p.ExcludeBelow > 0 {
		words += fmt.Sprintf(" --exclude-below %d", p.ExcludeBelow)
	}
	if p.Narrow() {
		words += " --narrow"
	}
	return words
}

// Larger returns what makes a pool larger, and the words of the command if that is a resize,
// to size node IDs or to as many as the pool can have.
func Larger(p protocol.PoolItem, size int) (how, words string) {
	most := protocol.MaxPoolSize
	for _, l := range []*protocol.IDLayout{p.Layout, p.LayoutBefore} { // as a resize checks it
		if l != nil {
			most = min(most, 1<<l.NodeBits)
		}
	}
	switch {
	case p.Limit() < most: // in a narrow pool, a resize also starts to widen
		return "resize the pool", fmt.Sprintf("resize --size %d", min(size, most))
	case most < protocol.MaxPoolSize:
		return "move the fleet to another pool, since this one's layout holds no more node IDs (“A pool outgrows its layout” in docs/operations.md)", ""
	}
	return "divide the fleet, since no pool can be larger", ""
}
