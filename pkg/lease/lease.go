package lease

import (
	"github.com/nodelease/nodelease/internal/protocol"
)

// Lease is the right of one session to one node ID for a span of milliseconds.
// A free number is a Lease without a Holder. Version is the fencing token. Times
// are whole milliseconds of the Unix epoch.
type Lease = protocol.Lease

// State is what a number is at a moment: free, held, expired, cooling or retired.
type State = protocol.State

// The states of a number; [Lease.State] tells which.
const (
	Free    = protocol.Free
	Held    = protocol.Held
	Expired = protocol.Expired
	Cooling = protocol.Cooling
	Retired = protocol.Retired
)
