package lease

import (
	"github.com/nodelease/nodelease/internal/protocol"
)

// Lease is the right of one session to one node ID for a span of milliseconds.
// Times are whole milliseconds of the Unix epoch.
//
//	Pool, NodeID              which number it is, from 0
//	Holder                    the session that holds it, a UUIDv7; empty when it is free
//	Task, Metadata            what the holder says of itself; never evidence of holding
//	Version                   the fencing token: one more for each holder, never reset
//	Renewal                   the number of the holder's last renewal
//	TTL, ExpiresAt            its length and end; others take it a claim guard after that
//	NotBefore, ReservedUntil  the milliseconds behind the one, up to the other, are the holder's
//	Layout                    the last change of the width that the number is marked for
//	Retired                   whether the number is out of use
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
