package protocol

import (
	"fmt"
	"maps"
	"regexp"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// GroupSize is how many node IDs share one partition of the table.
const GroupSize = 256

// MaxPoolSize is the largest number of node IDs in a pool: 16 bits of them.
const MaxPoolSize = 1 << 16

const (
	// DefaultTTL is the length of a lease that says nothing else.
	DefaultTTL = 15 * time.Second
	// MaxTTL is the longest lease.
	MaxTTL = 24 * time.Hour
)

var poolName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// CheckPoolName tells what is wrong with a pool's name, if anything: it is 1 to
// 64 of [A-Za-z0-9._-]. Without a # no pool looks like another one's group.
func CheckPoolName(name string) error {
	if !poolName.MatchString(name) {
		return fmt.Errorf("pool name %q: use 1 to 64 of A-Z a-z 0-9 . _ -", name)
	}
	return nil
}

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

	// Layout is the number of the last widening try that the item was marked
	// with; 0 is none.
	Layout int64 `json:"layout,omitempty"`
	// Retired numbers are out of use since the pool was made smaller.
	Retired bool `json:"retired,omitempty"`
	// Metadata is what the holder says of itself (address, zone, build).
	Metadata map[string]string `json:"metadata,omitempty"`
}

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
	case l.Holder != "":
		return Expired
	case l.ReservedUntil.After(now):
		return Cooling
	}
	return Free
}

// Clone copies the lease so that its reader cannot change the store's.
func (l Lease) Clone() Lease {
	l.Metadata = maps.Clone(l.Metadata)
	return l
}

// PoolItem is what the table knows of a pool as a whole.
type PoolItem struct {
	Pool   string `json:"pool"`
	Format int    `json:"item_format"` // of all items of the pool; this package writes ItemFormat
	Size   int    `json:"pool_size"`   // node IDs are below it
	// OpenGroups is how many groups, lowest first, a first guess falls into.
	OpenGroups int `json:"open_groups"`
	// ReservedLow numbers, the lowest, are never leased: for what is not managed.
	ReservedLow int       `json:"reserved_low"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	ResizedAt   time.Time `json:"resized_at,omitzero"`

	// Eras are the widths that the node IDs of a narrow pool have had; see
	// leasepool.Spec. They take its IDs apart: [snowflake.Eras.Decompose].
	Eras snowflake.Eras `json:"layouts,omitempty"`
	// Numbers of a narrow pool are there or may come to be: those below it.
	Numbers int `json:"widen_numbers,omitempty"`
	// Widening is the latest try to change the width of a narrow pool.
	Widening Widening `json:"widening,omitzero"`

	// ServerTime is the store's clock when it answered, to the second, zero if it
	// did not say. It is not part of the item.
	ServerTime time.Time `json:"-"`
}

// ItemFormat is the format of the items that this package reads and writes.
const ItemFormat = 1

// Groups is how many groups the pool has.
func (p PoolItem) Groups() int { return (p.Size + GroupSize - 1) / GroupSize }

// UsableGroups is how many of them have numbers that can be claimed.
func (p PoolItem) UsableGroups() int { return (p.Limit() + GroupSize - 1) / GroupSize }

// GroupsOpen is the first and the last group that numbers are leased in. Where
// all that is open is reserved, the next one counts too.
func (p PoolItem) GroupsOpen() (first, last int) {
	first = p.ReservedLow / GroupSize
	return first, max(first, min(p.OpenGroups, p.UsableGroups())-1)
}

// Open is the range [low, high) of node IDs that a first guess falls into. It is
// never empty.
func (p PoolItem) Open() (low, high int) {
	_, last := p.GroupsOpen()
	return p.ReservedLow, min(p.Limit(), (last+1)*GroupSize)
}
