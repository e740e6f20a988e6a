package lease

import "github.com/nodelease/nodelease/internal/protocol"

// Previous is the holder before the present one, as [Lease.Predecessor] returns it.
// Nil means that nobody held the node ID, or that it is not known.
//
//	Session  its session, which was the lease's Holder
//	Version  its version
//	Ended    how its lease ended, an Ending
type Previous = protocol.Previous

// Ending is how a lease ended.
type Ending = protocol.Ending

// The endings of a lease. Only after EndReleased its holder is known to have stopped.
const (
	EndReleased = protocol.EndReleased // its holder gave it back
	EndExpired  = protocol.EndExpired  // it ran out, and was claimed or reaped
	EndFreed    = protocol.EndFreed    // an operator ended it, or it was a copy's, too
)
