package protocol

import (
	"fmt"
	"regexp"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// GroupSize is how many node IDs share one partition of the table.
const GroupSize = 256

// MaxPoolSize is the largest number of node IDs in a pool: a node ID has 16 bits.
const MaxPoolSize = 1 << 16

var poolName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// CheckPoolName returns an error unless name is 1 to 64 characters of [A-Za-z0-9._-]. Since
// a name has no #, the key of a pool never looks like that of a group of another pool.
func CheckPoolName(name string) error {
	if !poolName.MatchString(name) {
		return fmt.Errorf("pool name %q: use 1 to 64 of A-Z a-z 0-9 . _ -", name)
	}
	return nil
}

// PoolItem is the table's item of a pool as a whole.
type PoolItem struct {
	Pool   string `json:"pool"`
	Format int    `json:"item_format"` // of all items of the pool; this package writes ItemFormat
	Size   int    `json:"pool_size"`   // node IDs are below it
	// OpenGroups is the number of groups, lowest first, that claimants try first.
	OpenGroups int `json:"open_groups"`
	// ExcludeBelow is the number of node IDs, counted from 0, that are never leased: they
	// are for unmanaged processes.
	ExcludeBelow int       `json:"exclude_below"`
	CreatedAt    time.Time `json:"created_at,omitzero"`
	ResizedAt    time.Time `json:"resized_at,omitzero"`

	// Revision grows by one with every change of the pool, except when Verdict or
	// Measured is written. Each write of an operator is conditional on the revision that
	// the operator has seen.
	Revision int64 `json:"revision"`
	// Floor is a time that never goes back. A node ID that is created later stamps only
	// milliseconds after Floor. If no floor was set, Floor is zero, and each node ID begins
	// at its creation.
	Floor time.Time `json:"floor,omitzero"`
	// Layout is the layout of the pool's IDs; nil until one is seeded or bound.
	Layout *IDLayout `json:"layout,omitempty"`
	// LayoutBefore is the layout that an operator is about to replace. No agent begins to
	// make IDs until the operator has replaced it.
	LayoutBefore *IDLayout `json:"layout_before,omitempty"`
	// LayoutFinal reports that operators can no longer correct the layout; see
	// [FinalLayout].
	LayoutFinal bool `json:"layout_final,omitempty"`
	// Expect is the expected number of holders; 0 means unknown. It never decreases.
	Expect   int       `json:"expect,omitempty"`
	Verdict  *Verdict  `json:"verdict,omitempty"`
	Measured *Measured `json:"measured,omitempty"`

	// Eras are the widths that the node IDs of a narrow pool have had; see leasepool.Spec.
	// [snowflake.Eras.Decompose] decodes the IDs of the pool with them.
	Eras snowflake.Eras `json:"eras,omitempty"`
	// ExistBelow is the bound below which node IDs of a narrow pool exist or may be created.
	ExistBelow int `json:"exist_below,omitempty"`
	// Widening is the latest try to change the width of a narrow pool.
	Widening Widening `json:"widening,omitzero"`

	// ServerTime is the store's clock when it answered, to the second; zero if the
	// answer has no time. It is not part of the item.
	ServerTime time.Time `json:"-"`
}

// ItemFormat is the format of the items that this package reads and writes. It is
// incremented only when older releases must not ignore a change; docs/items.md lists every
// item and attribute.
const ItemFormat = 2

// IDLayout is an ID layout as stored in the pool's item. It is comparable with ==.
type IDLayout struct {
	EpochMS      int64 `json:"epoch_ms" dynamodbav:"epoch_ms"`
	TickMS       int64 `json:"tick_ms" dynamodbav:"tick_ms"`
	TimeBits     uint8 `json:"time_bits" dynamodbav:"time_bits"`
	NodeBits     uint8 `json:"node_bits" dynamodbav:"node_bits"`
	SequenceBits uint8 `json:"sequence_bits" dynamodbav:"sequence_bits"`
	NodeLast     bool  `json:"node_last" dynamodbav:"node_last"`
}

// FinalLayout returns the layout of the IDs of pool p if it is final, or nil.
//
// Invariant: once an item has a layout and LayoutFinal, no write of this package changes
// either. So an agent that has read both, at any time, need not read them again.
func FinalLayout(p PoolItem) *IDLayout {
	if !p.LayoutFinal || p.LayoutBefore != nil {
		return nil
	}
	return p.Layout
}

// nodes returns the number of node IDs that fit the layout.
func (l IDLayout) nodes() int { return 1 << l.NodeBits }

// LayoutOf converts a generator's layout to the form that the pool's item keeps.
func LayoutOf(l snowflake.Layout) IDLayout {
	return IDLayout{
		EpochMS: l.Epoch.UnixMilli(), TickMS: l.Tick.Milliseconds(),
		TimeBits: l.TimeBits, NodeBits: l.NodeBits, SequenceBits: l.SequenceBits, NodeLast: l.NodeLast,
	}
}

// Snowflake converts the stored layout to a generator's.
func (l IDLayout) Snowflake() snowflake.Layout {
	return snowflake.Layout{
		Epoch: time.UnixMilli(l.EpochMS).UTC(), Tick: time.Duration(l.TickMS) * time.Millisecond,
		TimeBits: l.TimeBits, NodeBits: l.NodeBits, SequenceBits: l.SequenceBits, NodeLast: l.NodeLast,
	}
}

// Groups returns the number of groups of the pool.
func (p PoolItem) Groups() int { return (p.Size + GroupSize - 1) / GroupSize }

// Limit returns the bound below which node IDs can be claimed.
func (p PoolItem) Limit() int {
	if p.Narrow() {
		return min(p.Size, p.ExistBelow)
	}
	return p.Size
}

// UsableGroups returns the number of groups of p with node IDs that can be claimed.
func UsableGroups(p PoolItem) int { return (p.Limit() + GroupSize - 1) / GroupSize }

// GroupsOpen returns the first and the last group in which node IDs are leased. If all node
// IDs of the open groups are excluded, the first group with other node IDs is treated as
// open.
func (p PoolItem) GroupsOpen() (first, last int) {
	first = p.ExcludeBelow / GroupSize
	return first, max(first, min(p.OpenGroups, UsableGroups(p))-1)
}

// GroupsFor returns how many groups should be open for a number of holders: three node
// IDs for two holders, so that two in three are held and the newest group is not crowded.
func GroupsFor(p PoolItem, expect int) int {
	return min((p.ExcludeBelow+expect+(expect+1)/2+GroupSize-1)/GroupSize, p.Groups())
}

// OpenNext returns how many groups should be open once the present ones have filled up:
// twice as many, so that a fleet of any size has room after a few rounds. There must be a
// group that is not open yet. A narrow pool opens only as many groups as fit the width that
// its next group needs: with more groups, all IDs would lose a sequence bit before that is
// necessary.
//
// No promise depends on the number of open groups. Exclusivity and reservations are
// conditions on each node ID's own item, in any group, and a width changes only by a try
// that marks every node ID. Open groups decide where agents search, and which groups
// the reaper, the counts and clusters read. So groups are opened and never closed
// while they may have leases, and additional open groups only cost more reads.
func OpenNext(p PoolItem) int {
	first, last := p.GroupsOpen()
	next := last + 2
	to := max(next, min(2*(last+1)-first, UsableGroups(p)))
	for p.Narrow() && to > next && BitsFor(to) > BitsFor(next) {
		to--
	}
	return to
}

// Open returns the range [low, high) of node IDs in which a claimant first tries. It is
// never empty.
func (p PoolItem) Open() (low, high int) {
	_, last := p.GroupsOpen()
	return p.ExcludeBelow, min(p.Limit(), (last+1)*GroupSize)
}
