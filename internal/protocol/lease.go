package protocol

import (
	"maps"
	"time"
)

const (
	// DefaultTTL is the length of a lease that says nothing else.
	DefaultTTL = 15 * time.Second
	// MaxTTL is the longest lease.
	MaxTTL = 24 * time.Hour
)

// Lease is the right of one session to one node ID for a span of milliseconds,
// as it stands in the table. A free number is a Lease without a Holder.
// All times are whole milliseconds of the Unix epoch.
type Lease struct {
	Pool   string `json:"pool"`
	NodeID int    `json:"node_id"`

	// Holder is the session that holds the number, a UUIDv7; empty when free.
	Holder string `json:"holder,omitempty"`
	// Task says what the session is or was: an ECS task ARN, or host and pid. It
	// is information, never evidence of holding.
	Task string `json:"task,omitempty"`
	// Version is the fencing token: it grows by one each time the number changes
	// hands and is never reset. 0 means that nobody ever held the number.
	Version int64 `json:"version"`
	// Renewal numbers the renewal attempts inside a version.
	Renewal int64 `json:"renewal,omitempty"`
	// TTL is the length of the holder's lease.
	TTL time.Duration `json:"ttl_ns,omitempty"`

	// The holder may stamp the milliseconds in (NotBefore, ReservedUntil].
	NotBefore     time.Time `json:"not_before,omitzero"`
	ReservedUntil time.Time `json:"reserved_until,omitzero"`
	// ExpiresAt is when others may take the number (a claim guard later); zero
	// when free.
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// WidenTry is the latest widening try that the item was marked with; 0 is none.
	WidenTry int64 `json:"widen_try,omitempty"`
	// Retired numbers are out of use since the pool was made smaller.
	Retired bool `json:"retired,omitempty"`
	// Resize is the revision of the pool whose resize last retired this node ID or
	// took it back into use; 0 if none did.
	Resize int64 `json:"resize,omitempty"`
	// OnDemand reports whether the holder renews only when it uses the node ID.
	OnDemand bool `json:"on_demand,omitempty"`
	// Previous is the last holder whose lease was released, reaped or freed, and
	// TakenFrom the session whose expired lease the last claim took over, empty if
	// it found the node ID free. See [Lease.Predecessor].
	Previous  *Previous `json:"previous,omitempty"`
	TakenFrom string    `json:"taken_from,omitempty"`
	// Metadata is what the holder says of itself (address, zone, build).
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Previous is a holder whose lease has ended.
type Previous struct {
	Session string `json:"session"`
	Version int64  `json:"version"`
	Ended   Ending `json:"ended"`
}

// Ending is how a lease ended.
type Ending string

// The endings of a lease.
const (
	EndReleased Ending = "released" // its holder gave it back
	EndExpired  Ending = "expired"  // it ran out, and was claimed or reaped
	EndFreed    Ending = "freed"    // an operator or a raise ended it
)

// Predecessor returns the last holder before the present one, or, of a free node
// ID, the last one; nil if it is not known.
func (l Lease) Predecessor() *Previous {
	if l.TakenFrom != "" {
		return &Previous{Session: l.TakenFrom, Version: l.Version - 1, Ended: EndExpired}
	}
	return l.Previous
}

// IDsUntil returns until when the holder can make IDs if it hears nothing from the table
// from now on, by the table and with the default guards; the zero time if there is no
// holder. A holder with more than a minimal reserve makes IDs for longer than its lease.
// Shorter guards than the defaults add to it; longer ones, up to a few seconds, take away.
func (l Lease) IDsUntil() time.Time {
	if l.Holder == "" || l.ReservedUntil.IsZero() {
		return time.Time{}
	}
	guard, claimGuard := DefaultGuards(l.TTL)
	return l.ReservedUntil.Add(-guard - claimGuard)
}

// DefaultGuards returns the guard and the claim guard of a lease that says nothing else.
func DefaultGuards(ttl time.Duration) (guard, claimGuard time.Duration) {
	return min(2*time.Second, ttl/5).Truncate(time.Millisecond), min(time.Second, ttl/10).Truncate(time.Millisecond)
}

// Fenced reports whether Version is a fencing token: it is none where the node ID is
// fixed and nobody leases it.
func (l Lease) Fenced() bool { return l.Version > 0 }

// State is what a number is at a moment, to a reader whose clock says now.
type State string

// The states of a number.
const (
	Free    State = "free"    // may be claimed now
	Held    State = "held"    // somebody's, not expired
	Expired State = "expired" // somebody's, past its expiry: can be claimed once what it reserved has passed
	Cooling State = "cooling" // nobody's, but milliseconds ahead of now are still reserved
	Retired State = "retired" // out of use
)

// State tells what the number is at now. A retired number that is still held
// is Retired: its holder may finish, nobody else may come.
func (l Lease) State(now time.Time) State {
	switch {
	case l.Retired:
		return Retired
	case l.Holder != "" && !l.ExpiresAt.Before(now):
		return Held
	case l.Holder != "" && !l.OnDemand: // an on-demand holder lets its lease run out
		return Expired
	case l.ReservedUntil.After(now):
		return Cooling
	}
	return Free
}

// Clone copies the lease so that its reader cannot change the store's.
func (l Lease) Clone() Lease {
	l.Metadata = maps.Clone(l.Metadata)
	if l.Previous != nil {
		p := *l.Previous
		l.Previous = &p
	}
	return l
}
