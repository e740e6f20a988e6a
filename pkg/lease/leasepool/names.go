package leasepool

import (
	"context"
	"errors"

	"github.com/nodelease/nodelease/internal/protocol"
)

// index is implemented by stores that keep a list of their pools' names. The in-memory
// store keeps none.
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

// Record adds the pool's name to the table's index. Seed calls Record. Call Record again
// only if the pool was seeded by a role without permission to write the index, or if the
// entry was deleted.
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

// recordIfPermitted is the variant of Record that Seed uses. It returns no error if
// permission is missing, since a task's role may only be permitted to seed its own pool.
func (p *Pool) recordIfPermitted(ctx context.Context) error {
	if err := p.Record(ctx); !errors.Is(err, protocol.ErrAccess) {
		return err
	}
	return nil
}
