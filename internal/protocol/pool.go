package protocol

import (
	"fmt"
	"regexp"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// GroupSize is how many node IDs share one partition of the table.
const GroupSize = 256

// MaxPoolSize is the largest number of node IDs in a pool: 16 bits of them.
const MaxPoolSize = 1 << 16

var poolName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// CheckPoolName tells what is wrong with a pool's name, if anything: it is 1 to
// 64 of [A-Za-z0-9._-]. Without a # no pool looks like another one's group.
func CheckPoolName(name string) error {
	if !poolName.MatchString(name) {
		return fmt.Errorf("pool name %q: use 1 to 64 of A-Z a-z 0-9 . _ -", name)
	}
	return nil
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

// Limit is the number below which numbers can be claimed.
func (p PoolItem) Limit() int {
	if p.Narrow() {
		return min(p.Size, p.Numbers)
	}
	return p.Size
}

// UsableGroups is how many groups have numbers that can be claimed.
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
