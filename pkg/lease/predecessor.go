package lease

import "github.com/nodelease/nodelease/internal/protocol"

// Previous is the previous holder, as [Lease.Predecessor] returns it. Nil means
// that the node ID was never held, or that the previous holder is not known.
//
//	Session  its session, which was the lease's Holder
//	Version  its version
//	Ended    how its lease ended, an Ending
type Previous = protocol.Previous

// Ending is how a lease ended.
type Ending = protocol.Ending

// The endings of a lease. Only after EndReleased is its holder known to have stopped.
const (
	EndReleased = protocol.EndReleased // its holder released it
	EndExpired  = protocol.EndExpired  // it expired, and was claimed or reaped
	EndFreed    = protocol.EndFreed    // an operator ended it, or a copy of the holder had it, too
)
