package lease

import (
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Lease is the right of one session to one node ID for a span of milliseconds. A free
// node ID is a Lease without a Holder. All times are whole milliseconds of the Unix
// epoch.
//
// The leases that package leasepool returns have the same fields: Lease(l) converts such
// a lease l.
//
// In the table, a lease is an item. Package internal/protocol defines the attributes of
// items, and reads and writes them.
type Lease struct {
	Pool string `json:"pool"`
	// NodeID is the node ID, from 0.
	NodeID int `json:"node_id"`

	// Holder is the session that holds the node ID, a UUIDv7; empty if the node ID is free.
	Holder string `json:"holder,omitempty"`
	// Task describes where the session runs or ran: an ECS task ARN, or host and pid. It is
	// informational only, and never evidence that the lease is held.
	Task string `json:"task,omitempty"`
	// Version is the fencing token: it grows by one each time the node ID changes hands
	// and is never reset. 0 means that the node ID was never held.
	Version int64 `json:"version"`
	// Renewal is the number of the latest renewal attempt within the version.
	Renewal int64 `json:"renewal,omitempty"`
	// TTL is the length of the holder's lease.
	TTL time.Duration `json:"ttl_ns,omitempty"`

	// The holder may stamp the milliseconds in (NotBefore, ReservedUntil].
	NotBefore     time.Time `json:"not_before,omitzero"`
	ReservedUntil time.Time `json:"reserved_until,omitzero"`
	// ExpiresAt is when the lease expires; others may claim the node ID a claim guard later.
	// It is zero if the node ID is free.
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// WidenTry is the number of the latest try to widen the pool's node IDs with which this
	// node ID was marked; 0 means that it was never marked.
	WidenTry int64 `json:"widen_try,omitempty"`
	// Retired means that the node ID has been out of use since the pool was made smaller.
	Retired bool `json:"retired,omitempty"`
	// Resize is the revision of the pool whose resize last retired this node ID or brought
	// it back into use; 0 if there was no such resize.
	Resize int64 `json:"resize,omitempty"`
	// OnDemand reports whether the holder renews only when it uses the node ID.
	OnDemand bool `json:"on_demand,omitempty"`
	// Previous and TakenFrom name the holders before this one; Predecessor reads them.
	Previous  *Previous `json:"previous,omitempty"`
	TakenFrom string    `json:"taken_from,omitempty"`
	// Metadata is the holder's description of itself (address, zone, build).
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Predecessor returns the previous holder, or the last holder of a free node ID. It
// returns nil if the node ID was never held, or if the previous holder is not known.
func (l Lease) Predecessor() *Previous { return protocol.Lease(l).Predecessor() }

// Fenced reports whether Version is a fencing token. It is not a fencing token if the
// node ID is fixed, that is, without a lease.
func (l Lease) Fenced() bool { return protocol.Lease(l).Fenced() }

// IDsUntil returns the time until which the holder can make IDs if it gets no answer from
// the table from now on; the zero time if there is no holder. It assumes the default
// guards. With shorter guards the holder can make IDs for longer; with longer guards it
// stops up to a few seconds earlier.
func (l Lease) IDsUntil() time.Time { return protocol.Lease(l).IDsUntil() }

// State returns the state of the node ID at now. A retired node ID that is still held is
// Retired: its holder may finish, but no one else may claim it.
func (l Lease) State(now time.Time) State { return State(protocol.Lease(l).State(now)) }

// State is the state of a node ID at the time that the reader's clock shows.
type State string

// The states of a node ID, as [Lease.State] returns them.
const (
	Free    State = State(protocol.Free)    // may be claimed now
	Held    State = State(protocol.Held)    // has a holder, not expired
	Expired State = State(protocol.Expired) // has a holder, past its expiry: can be claimed once its reserved time has passed
	Cooling State = State(protocol.Cooling) // no holder, but milliseconds ahead of now are still reserved
	Retired State = State(protocol.Retired) // out of use
)

// Previous is the previous holder, as [Lease.Predecessor] returns it. It is an alias, so
// that leases of package leasepool convert to Lease.
type Previous = struct {
	// Session is the previous holder's session, which was the lease's Holder.
	Session string `json:"session"`
	// Version was the previous holder's fencing token.
	Version int64 `json:"version"`
	// Ended is how the previous holder's lease ended.
	Ended Ending `json:"ended"`
}

// Ending is how a lease ended: EndReleased, EndExpired or EndFreed.
type Ending = string

// These are the endings of a lease. Only EndReleased shows that the holder has stopped.
const (
	EndReleased Ending = protocol.EndReleased // its holder released it
	EndExpired  Ending = protocol.EndExpired  // it expired, and was claimed or reaped
	EndFreed    Ending = protocol.EndFreed    // an operator or a raise ended it, or it was ended because a copy of the holder had it as well
)

// Store keeps the leases. NewDynamoDB is the production store; leasetest.NewMemory is for
// tests. Both pass the same conformance tests. Store is sealed: only this module can
// implement it, since its methods take types of an internal package.
type Store = protocol.Store

// Client has the methods of a *[dynamodb.Client] that a store needs.
type Client = protocol.Client

// NewDynamoDB returns the production store, which keeps leases in a table, with the
// caller's own client. It is safe for concurrent use and keeps no state outside the table.
// Every call is one attempt, regardless of the client's retries: a hidden retry could
// outlive the lease. [Open] creates a client from the environment.
func NewDynamoDB(client Client, table string) Store { return protocol.NewDynamoDB(client, table) }
