package protocol

import "context"

// Store keeps the items. NewDynamoDB is the production store; leasetest.NewMemory is
// for tests. Both pass protocoltest.Conformance.
//
// After an error with an unknown outcome (time-out, 5xx), the write may still be
// applied, even much later. An error that a retry does not fix wraps one of the
// sentinels of this package; a *[CorruptError] concerns one item.
type Store interface {
	// Check returns an error unless the table can keep leases: it exists, has our
	// keys and no unsafe replication. It costs no read units.
	Check(ctx context.Context) error
	// PoolItem reads a pool's item, strongly consistent. The error is ErrPoolNotSeeded
	// if there is none.
	PoolItem(ctx context.Context, pool string) (PoolItem, error)
	// Get reads one node ID, strongly consistent; nil if it was never seeded.
	Get(ctx context.Context, pool string, nodeID int) (*Lease, error)
	// Group reads the node IDs of one group, strongly consistent, in order.
	Group(ctx context.Context, pool string, group int) (Group, error)
	// Write does one conditional write, with one attempt.
	Write(ctx context.Context, w Write) (Result, error)
	// WritePool does one conditional write of a pool's item, with one attempt.
	WritePool(ctx context.Context, w PoolWrite) (PoolResult, error)
	// ReaperMemory reads the memory of the pool's reaper, strongly consistent. It has
	// no Revision if nothing was ever stored.
	ReaperMemory(ctx context.Context, pool string) (ReaperMemory, error)
	// WriteReaperMemory does one conditional write of the memory, with one attempt.
	WriteReaperMemory(ctx context.Context, w MemoryWrite) (applied bool, err error)
}

// EventualStore is a [Store] that can also read eventually consistent: at half the price,
// but the answer may be a second old.
type EventualStore interface {
	// EventualGroup reads the same as [Store.Group], eventually consistent.
	EventualGroup(ctx context.Context, pool string, group int) (Group, error)
}

// EventualGroup reads one group, eventually consistent if the store supports it.
func EventualGroup(ctx context.Context, s Store, pool string, group int) (Group, error) {
	if cheap, ok := s.(EventualStore); ok {
		return cheap.EventualGroup(ctx, pool, group)
	}
	return s.Group(ctx, pool, group)
}

// PartStore is a [Store] that can read a part of a group, for less than the whole costs.
type PartStore interface {
	// EventualPart reads the node IDs of one part of a group, in order, with eventually
	// consistent reads.
	EventualPart(ctx context.Context, pool string, group int, part Part) (Group, error)
}

// Part is a part of a group: if the group is divided into parts of Size node IDs, the part
// with the number N, from 0. The zero Part is the whole group.
type Part struct{ N, Size int }

// The sizes of parts, which divide GroupSize. If all node IDs are held, reading a group costs
// 19 read units, a large part 5 and a small part 2; eventually consistent reads cost half as
// many.
const (
	SmallPart = 16
	LargePart = 64
)

// PartOf returns the part of the given size that contains a node ID.
func PartOf(node, size int) Part { return Part{node % GroupSize / size, size} }

// Whole reports whether the part is the whole group.
func (p Part) Whole() bool { return p.Size == 0 }

// Bounds returns the first node ID of a part of a group, and the node ID after its last.
func (p Part) Bounds(group int) (first, end int) {
	if p.Whole() {
		return group * GroupSize, (group + 1) * GroupSize
	}
	first = group*GroupSize + p.N*p.Size
	return first, first + p.Size
}

// Group is the content of one group of node IDs, or of a part of one.
type Group struct {
	Leases  []Lease
	Corrupt []*CorruptError
}

// Result is a store's answer to a [Write].
type Result struct {
	// Applied reports that the condition held and the write was done.
	Applied bool
	// Lease is the item after the write, or, if the write was refused, the item as it is;
	// nil if there is no item.
	Lease *Lease
}

// PoolResult is a store's answer to a [PoolWrite].
type PoolResult struct {
	Applied bool
	Pool    *PoolItem
}
