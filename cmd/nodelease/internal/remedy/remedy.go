// Package remedy has the remedies that both `nodelease doctor` and the page of
// `nodelease ui` name.
package remedy

import (
	"fmt"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Deleted is the advice to follow before the words of [Seed].
const Deleted = "if they were deleted, stop every process before seeding again, since their holders can make IDs until their reservations end"

// Seed returns the words of the command that creates the missing node IDs of a pool. The
// floor keeps clocks that were ahead from making IDs twice.
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
