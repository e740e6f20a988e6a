package lease

import (
	"github.com/nodelease/nodelease/internal/protocol"
)

// Lease is the right of one session to one node ID for a span of milliseconds.
// Times are of type time.Time, in whole milliseconds.
//
//	Pool, NodeID              the node ID, from 0
//	Holder                    the session that holds it, a UUIDv7; empty when it is free
//	Task, Metadata            the holder's description of itself; no proof of holding
//	Version                   the fencing token: it grows by one with each holder, and is never reset
//	Renewal                   the count of the holder's renewals
//	TTL, ExpiresAt            its length and end; others may take it a claim guard later
//	NotBefore, ReservedUntil  the holder's milliseconds: after the first, up to the second
//	WidenTry                  the last change of the width that the node ID is marked for
//	Retired                   whether the node ID is out of use
//
// Its methods:
//
//	Predecessor() *Previous   the previous holder, and how its lease ended
//	Fenced() bool             whether Version is a fencing token: there is a lease
//	State(now) State          free, held, expired, cooling or retired at that time
type Lease = protocol.Lease

// State is the state of a node ID at some time: free, held, expired, cooling or retired.
type State = protocol.State

// The states of a node ID, as [Lease.State] returns them.
const (
	Free    = protocol.Free
	Held    = protocol.Held
	Expired = protocol.Expired
	Cooling = protocol.Cooling
	Retired = protocol.Retired
)

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

// Store keeps the leases. NewDynamoDB is the production store; leasetest.NewMemory is
// for tests. Both pass one conformance suite. Store is sealed: its methods take the
// protocol's writes, which only this module has.
type Store = protocol.Store

// DynamoDB is the production [Store]. It is safe for concurrent use and has no state
// of its own.
type DynamoDB = protocol.DynamoDB

// Client has the methods of a *[dynamodb.Client] that a store needs.
type Client = protocol.Client

// NewDynamoDB returns a store that keeps leases in a table, with the caller's own
// client. Every call is one attempt, regardless of the client's retries: a hidden
// retry could outlive the lease. [Open] creates a client from the environment.
func NewDynamoDB(client Client, table string) *DynamoDB { return protocol.NewDynamoDB(client, table) }
