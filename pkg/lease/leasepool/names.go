package leasepool

import (
	"context"
	"errors"

	"github.com/nodelease/nodelease/internal/protocol"
)

// index is the part of a store that names its pools. A store in memory has none.
type index interface {
	RecordPool(ctx context.Context, pool string) error
	Pools(ctx context.Context) ([]string, error)
}

// Names returns the names of the pools that were seeded in a table, sorted. It
// reads the table's index, not the table.
func Names(ctx context.Context, s protocol.Store) ([]string, error) {
	i, ok := some(s).(index)
	if !ok {
		return nil, protocol.CheckContext(ctx)
	}
	return protocol.Retry(ctx, i.Pools)
}

// Record names the pool in the table's index. Seed calls it; it is needed again
// only if a role without that permission has seeded, or the entry was deleted.
func (p *Pool) Record(ctx context.Context) error {
	i, ok := p.table().(index)
	if !ok {
		return protocol.CheckContext(ctx)
	}
	_, err := protocol.Retry(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, i.RecordPool(ctx, p.Name) })
	return err
}

// recordIfPermitted is Record for a seed, which succeeds without the entry too: a task's
// role may be permitted to seed its pool and write nothing else.
func (p *Pool) recordIfPermitted(ctx context.Context) error {
	if err := p.Record(ctx); !errors.Is(err, protocol.ErrAccess) {
		return err
	}
	return nil
}
