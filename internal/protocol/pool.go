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
	// ExcludeBelow numbers, the lowest, are never leased: for what is not managed.
	ExcludeBelow int       `json:"exclude_below"`
	CreatedAt    time.Time `json:"created_at,omitzero"`
	ResizedAt    time.Time `json:"resized_at,omitzero"`

	// Revision grows by one with every change of the pool, except when Verdict or
	// Measured is written. Each write of an operator is conditioned on the revision it has seen.
	Revision int64 `json:"revision"`
	// Floor never goes back. Every node ID that is created later begins after it. It is
	// zero where none was given: each node ID then begins when it is created.
	Floor time.Time `json:"floor,omitzero"`
	// Layout is the layout of the pool's IDs; nil until one is seeded or bound.
	Layout *IDLayout `json:"layout,omitempty"`
	// LayoutBefore is the layout that an operator is about to replace: nobody makes
	// IDs until that is done.
	LayoutBefore *IDLayout `json:"layout_before,omitempty"`
	// LayoutFinal reports that no operator corrects the layout any longer; see
	// [PoolItem.FinalLayout].
	LayoutFinal bool `json:"layout_final,omitempty"`
	// Expect is how many holders are expected; 0 is unknown. It never goes back.
	Expect   int       `json:"expect,omitempty"`
	Verdict  *Verdict  `json:"verdict,omitempty"`
	Measured *Measured `json:"measured,omitempty"`

	// Eras are the widths that the node IDs of a narrow pool have had; see
	// leasepool.Spec. They take its IDs apart: [snowflake.Eras.Decompose].
	Eras snowflake.Eras `json:"eras,omitempty"`
	// Numbers of a narrow pool are there or may come to be: those below it.
	Numbers int `json:"widen_numbers,omitempty"`
	// Widening is the latest try to change the width of a narrow pool.
	Widening Widening `json:"widening,omitzero"`

	// ServerTime is the store's clock when it answered, to the second, zero if it
	// did not say. It is not part of the item.
	ServerTime time.Time `json:"-"`
}

// ItemFormat is the format of the items that this package reads and writes. It
// grows only when an older release must not ignore a change; docs/items.md lists
// every item and attribute.
const ItemFormat = 2

// Measured is the last count of the pool's node IDs.
type Measured struct {
	Held    int       `json:"held"`
	Cooling int       `json:"cooling"` // nobody's, or a dead holder's, and still reserved
	At      time.Time `json:"at"`
	// Valid is how long it counts.
	Valid time.Duration `json:"valid_ns,omitempty"`
}

// Fresh reports whether the measurement counts at now. One from the future does not: its
// clock was wrong. Clocks may differ by skew.
func (m *Measured) Fresh(now time.Time, skew time.Duration) bool {
	return m != nil && m.Held >= 0 && m.Cooling >= 0 && !m.At.After(now.Add(skew)) && now.Before(m.At.Add(m.Valid))
}

// mostValid is longer than any measurement counts.
const mostValid = 24 * time.Hour

// stored is m as the item has it.
func (m *Measured) stored() measured {
	return measured{Held: m.Held, Cooling: m.Cooling, At: m.At.UnixMilli(), ValidMS: m.Valid.Milliseconds()}
}

// IDLayout is an ID layout as the pool's item keeps it. It compares with ==.
type IDLayout struct {
	EpochMS      int64 `json:"epoch_ms" dynamodbav:"epoch_ms"`
	TickMS       int64 `json:"tick_ms" dynamodbav:"tick_ms"`
	TimeBits     uint8 `json:"time_bits" dynamodbav:"time_bits"`
	NodeBits     uint8 `json:"node_bits" dynamodbav:"node_bits"`
	SequenceBits uint8 `json:"sequence_bits" dynamodbav:"sequence_bits"`
	NodeLast     bool  `json:"node_last" dynamodbav:"node_last"`
}

// FinalLayout returns the layout of the pool's IDs if it will never be another one, or
// nil.
//
// Invariant: once an item has a layout and the mark, no write of this package changes
// either. So who read both, at any time before, need not read them again.
func (p PoolItem) FinalLayout() *IDLayout {
	if !p.LayoutFinal || p.LayoutBefore != nil {
		return nil
	}
	return p.Layout
}

// nodes is how many node IDs the layout has room for.
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
	first = p.ExcludeBelow / GroupSize
	return first, max(first, min(p.OpenGroups, p.UsableGroups())-1)
}

// GroupsFor is how many groups are to be open for so many holders: half as many node
// IDs again, so that two in three are held and nobody finds the newest group crowded.
func GroupsFor(p PoolItem, expect int) int {
	return min((p.ExcludeBelow+expect+(expect+1)/2+GroupSize-1)/GroupSize, p.Groups())
}

// OpenNext is how many groups are to be open when those that are have filled up: twice
// as many, so that a fleet of any size has room after a few rounds. It needs one that
// is not open yet. A narrow pool opens no more than fit the width that its next group
// needs: the second half of a doubling would cost all IDs a bit for nobody.
//
// How many groups are open is part of no promise. Exclusivity, and what is reserved,
// are conditions on each node ID's own item, wherever it lies; a width changes only by
// a try that marks every node ID. Open groups decide where agents look, and which
// groups the reaper, the counts and clusters read: so groups are opened and never
// closed while leases may be in them, and more of them cost reads and nothing else.
func OpenNext(p PoolItem) int {
	first, last := p.GroupsOpen()
	next := last + 2
	to := max(next, min(2*(last+1)-first, p.UsableGroups()))
	for p.Narrow() && to > next && BitsFor(to) > BitsFor(next) {
		to--
	}
	return to
}

// Open is the range [low, high) of node IDs that a first guess falls into. It is
// never empty.
func (p PoolItem) Open() (low, high int) {
	_, last := p.GroupsOpen()
	return p.ExcludeBelow, min(p.Limit(), (last+1)*GroupSize)
}
