package protocol

import (
	"maps"
	"time"
)

const (
	// DefaultTTL is the length of a lease unless another one is set.
	DefaultTTL = 15 * time.Second
	// MaxTTL is the longest lease.
	MaxTTL = 24 * time.Hour
)

// Lease is the right of one session to one node ID for a span of milliseconds, as stored
// in the table. It has the same fields as lease.Lease, which describes them, so that each
// converts to the other.
type Lease struct {
	Pool          string        `json:"pool"`
	NodeID        int           `json:"node_id"`
	Holder        string        `json:"holder,omitempty"`
	Task          string        `json:"task,omitempty"`
	Version       int64         `json:"version"`
	Renewal       int64         `json:"renewal,omitempty"`
	TTL           time.Duration `json:"ttl_ns,omitempty"`
	NotBefore     time.Time     `json:"not_before,omitzero"`
	ReservedUntil time.Time     `json:"reserved_until,omitzero"`
	ExpiresAt     time.Time     `json:"expires_at,omitzero"`
	WidenTry      int64         `json:"widen_try,omitempty"`
	Retired       bool          `json:"retired,omitempty"`
	Resize        int64         `json:"resize,omitempty"`
	OnDemand      bool          `json:"on_demand,omitempty"`
	// Previous is the last holder whose lease was released, reaped or freed. TakenFrom
	// is the session whose expired lease the last claim took over, or empty if the
	// claim found the node ID free. See [Lease.Predecessor].
	Previous  *Previous         `json:"previous,omitempty"`
	TakenFrom string            `json:"taken_from,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// Previous is a holder whose lease has ended. It is an alias, as in pkg/lease: the two
// Lease types convert only if this field has the same type in both.
type Previous = struct {
	Session string `json:"session"`
	Version int64  `json:"version"`
	Ended   Ending `json:"ended"`
}

// Ending is how a lease ended.
type Ending = string

// The endings of a lease.
const (
	EndReleased Ending = "released" // its holder released it
	EndExpired  Ending = "expired"  // it expired, and was claimed or reaped
	EndFreed    Ending = "freed"    // an operator or a raise ended it
)

// Predecessor returns the holder before the present one, or the last holder if the node
// ID is free; nil if it is not known.
func (l Lease) Predecessor() *Previous {
	if l.TakenFrom != "" {
		return &Previous{Session: l.TakenFrom, Version: l.Version - 1, Ended: EndExpired}
	}
	return l.Previous
}

// IDsUntil is described in pkg/lease. It follows from the reservation and the default
// guards, since the item does not have the holder's guards.
func (l Lease) IDsUntil() time.Time {
	if l.Holder == "" || l.ReservedUntil.IsZero() {
		return time.Time{}
	}
	guard, claimGuard := DefaultGuards(l.TTL)
	return l.ReservedUntil.Add(-guard - claimGuard)
}

// DefaultGuards returns the guard and the claim guard of a lease that does not set its
// own.
func DefaultGuards(ttl time.Duration) (guard, claimGuard time.Duration) {
	return min(2*time.Second, ttl/5).Truncate(time.Millisecond), min(time.Second, ttl/10).Truncate(time.Millisecond)
}

// Fenced is described in pkg/lease.
func (l Lease) Fenced() bool { return l.Version > 0 }

// State is the state of a node ID at the time that the reader's clock shows.
type State string

// The states of a node ID.
const (
	Free    State = "free"    // may be claimed now
	Held    State = "held"    // has a holder, not expired
	Expired State = "expired" // has a holder, past its expiry: can be claimed once its reserved time has passed
	Cooling State = "cooling" // no holder, but milliseconds ahead of now are still reserved
	Retired State = "retired" // out of use
)

// State returns the state of the node ID at now. A retired node ID that is still held is
// Retired: its holder may finish, but no one else may claim it.
func (l Lease) State(now time.Time) State {
	switch {
	case l.Retired:
		return Retired
	case l.Holder != "" && !l.ExpiresAt.Before(now):
		return Held
	case l.Holder != "" && !l.OnDemand: // an on-demand holder lets its lease expire
		return Expired
	case l.ReservedUntil.After(now):
		return Cooling
	}
	return Free
}

// Clone returns a deep copy of the lease, so that a reader of the copy cannot change the
// original.
func (l Lease) Clone() Lease {
	l.Metadata = maps.Clone(l.Metadata)
	if l.Previous != nil {
		p := *l.Previous
		l.Previous = &p
	}
	return l
}
