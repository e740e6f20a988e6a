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
	// EventualPart reads the node IDs of one part (0 to Parts-1) of a group, in order, with
	// eventually consistent reads.
	EventualPart(ctx context.Context, pool string, group, part int) (Group, error)
}

const (
	// PartSize is the number of node IDs in a part. If all node IDs are held, reading a
	// group costs 19 read units and reading a part costs 2; eventually consistent reads
	// cost half as many.
	PartSize = 16
	// Parts is the number of parts of a group.
	Parts = GroupSize / PartSize
	// Whole selects the whole group where a parameter is the number of a part.
	Whole = -1
)

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
