package leasepool

import (
	"context"
	"errors"

	"github.com/nodelease/nodelease/internal/protocol"
)

// index is implemented by stores that keep a list of their pools' names. A store in memory
// keeps none.
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

// Record adds the pool's name to the table's index. Seed calls Record. It must be called again
// only if the pool was seeded by a role without the permission to write the index, or if
// the entry was deleted.
func (p *Pool) Record(ctx context.Context) error {
	if err := p.absent(); err != nil {
		return err
	}
	i, ok := p.table().(index)
	if !ok {
		return protocol.CheckContext(ctx)
	}
	_, err := protocol.Retry(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, i.RecordPool(ctx, p.Name) })
	return err
}

// recordIfPermitted is Record for Seed: it returns no error if permission is missing, since
// the role of a task may be permitted only to seed its own pool.
func (p *Pool) recordIfPermitted(ctx context.Context) error {
	if err := p.Record(ctx); !errors.Is(err, protocol.ErrAccess) {
		return err
	}
	return nil
}
