package leasepool

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
)

func init() {
	siblings.BindLayout, siblings.CountOpen, siblings.WidenUnlessOpen = bindLayout, countOpen, widenUnlessOpen
}

// Pool has the operations ("verbs") on a pool: seed, resize, reap, force release, raise,
// count. Each of them may be repeated or run concurrently, and continues where an earlier
// run stopped. During throttling and outages it retries until its context ends, and then
// reports its progress. A corrupt item is reported and does not stop it.
type Pool struct {
	Name string
	// Progress, if not nil, is called after each group of 256 node IDs, one call at
	// a time. The total may grow.
	Progress func(done, total int)
	// Logger reports when Reap holds leases back. Defaults to slog.Default().
	Logger *slog.Logger

	store protocol.Store
	// doubt is set while Reap has seen an error that it could not record in the table.
	doubt atomic.Bool
}

// Open returns the pool with this name. It sends no request. If the store is nil, all
// methods of the pool fail, as they do for a nil or zero Pool.
func Open(s protocol.Store, name string) *Pool { return &Pool{Name: name, store: s} }

// absent returns an error if p is nil, zero or without a store. Every exported method begins
// with it.
func (p *Pool) absent() error {
	if p == nil || protocol.IsNil(p.store) {
		return errAbsent
	}
	return nil
}

var errAbsent = fmt.Errorf("%w: this Pool is nil or has no store: leasepool.Open with a store returns one", protocol.ErrArgument)

// table returns the store. For a zero Pool or a nil store it returns a store whose methods
// return an error.
func (p *Pool) table() protocol.Store { return some(p.store) }

func some(s protocol.Store) protocol.Store {
	if protocol.IsNil(s) {
		return new(protocol.DynamoDB)
	}
	return s
}

// Item is the table's item for the pool as a whole: its size, its open groups, and the
// widths that its node IDs have had.
type Item = protocol.PoolItem

// MaxSize is the largest number of node IDs in a pool: the number of values of 16 bits.
const MaxSize = protocol.MaxPoolSize

// CheckName returns an error unless a pool's name is 1 to 64 characters of [A-Za-z0-9._-].
// A # is not allowed, since a pool's partition could then look like a group of another pool.
func CheckName(name string) error { return protocol.CheckPoolName(name) }

// item reads the pool's item.
func (p *Pool) item(ctx context.Context) (protocol.PoolItem, error) {
	if err := protocol.CheckPoolName(p.Name); err != nil {
		return protocol.PoolItem{}, fmt.Errorf("lease: %w", err)
	}
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolItem, error) { return p.table().PoolItem(ctx, p.Name) })
}

// poolSkew is the clock error that verbs which write tolerate. These verbs compute floors
// and compare expiries with this machine's clock. If the clock were far ahead, they would
// free live leases, and reserve new node IDs up to a wrong time.
const poolSkew = 5 * time.Second

// itemInTime reads the pool's item, and returns an error if this machine's clock and the
// store's differ by more than poolSkew, even if there is no such pool.
func (p *Pool) itemInTime(ctx context.Context) (protocol.PoolItem, error) {
	if err := protocol.CheckPoolName(p.Name); err != nil {
		return protocol.PoolItem{}, fmt.Errorf("lease: %w", err)
	}
	// Invariant: the clock is read for each attempt, since otherwise a clock that is ahead would
	// pass after an outage of as long, and live leases would be freed.
	var before time.Time
	item, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolItem, error) {
		before = time.Now()
		return p.table().PoolItem(ctx, p.Name)
	})
	if skew := protocol.CheckSkew(before, time.Now(), item.ServerTime, poolSkew); skew != nil {
		return item, skew
	}
	return item, err
}

// write sends one write of a node ID, and retries it until there is an answer.
func (p *Pool) write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.Result, error) { return p.table().Write(ctx, w) })
}

// writePool sends one write of the pool's item, and retries it until there is an answer.
func (p *Pool) writePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolResult, error) { return p.table().WritePool(ctx, w) })
}

// group reads one group, and retries until there is an answer.
func (p *Pool) group(ctx context.Context, n int) (protocol.Group, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) { return p.table().Group(ctx, p.Name, n) })
}
