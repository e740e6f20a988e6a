// Package leasetest has what tests of leases need: a [lease.Store] in memory,
// the conformance suite that every store passes, and stores that misbehave.
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Memory is a [lease.Store] in memory, for tests of programs that use leases.
// It is safe for concurrent use, linearizable, and forgets all at exit.
type Memory struct {
	mu     sync.Mutex
	pools  map[string]lease.PoolItem
	leases map[lease.Key]lease.Lease
	writes int
	outage error
}

var _ lease.Store = (*Memory)(nil)

// NewMemory gives a store with one pool of size numbers, 0 to size-1, seeded
// with the present moment as its floor. A size of 0 gives a store without pools.
// It panics on a size or a name that no pool can have.
func NewMemory(pool string, size int) *Memory {
	m := &Memory{pools: map[string]lease.PoolItem{}, leases: map[lease.Key]lease.Lease{}}
	if size == 0 {
		return m
	}
	spec := lease.SeedSpec{Size: size, Floor: time.Now()}
	// Pool.Seed keeps to the pace of a table, which memory has no need of: it finds
	// the numbers there.
	for n := range min(size, lease.MaxPoolSize) {
		w := lease.Seed{Key: lease.Key{Pool: pool, NodeID: n}, Floor: spec.Floor}
		m.leases[w.Item()], _ = w.Apply(nil)
	}
	if _, err := lease.OpenPool(m, pool).Seed(context.Background(), spec); err != nil {
		panic(err)
	}
	m.writes = 0
	return m
}

// Writes is how many conditional writes were sent so far, refused ones included.
func (m *Memory) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// SetOutage makes every later call fail with err without doing anything, until
// it is called with nil.
func (m *Memory) SetOutage(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outage = err
}

// enter begins a call: it fails in an outage and when the caller is gone.
func (m *Memory) enter(ctx context.Context) (leave func(), err error) {
	m.mu.Lock()
	if err := errors.Join(ctx.Err(), m.outage); err != nil {
		m.mu.Unlock()
		return nil, err
	}
	return m.mu.Unlock, nil
}

// Check implements [lease.Store].
func (m *Memory) Check(ctx context.Context) error {
	leave, err := m.enter(ctx)
	if err == nil {
		leave()
	}
	return err
}

// PoolItem implements [lease.Store].
func (m *Memory) PoolItem(ctx context.Context, pool string) (lease.PoolItem, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return lease.PoolItem{}, err
	}
	defer leave()
	p, ok := m.pools[pool]
	if !ok {
		return p, fmt.Errorf("%w: no pool %q in memory", lease.ErrPoolNotSeeded, pool)
	}
	return p, nil
}

// Get implements [lease.Store].
func (m *Memory) Get(ctx context.Context, pool string, nodeID int) (*lease.Lease, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if l, ok := m.leases[lease.Key{Pool: pool, NodeID: nodeID}]; ok {
		return &l, nil
	}
	return nil, nil
}

// Group implements [lease.Store].
func (m *Memory) Group(ctx context.Context, pool string, group int) (lease.Group, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return lease.Group{}, err
	}
	defer leave()
	var g lease.Group
	for n := group * lease.GroupSize; n < (group+1)*lease.GroupSize; n++ {
		if l, ok := m.leases[lease.Key{Pool: pool, NodeID: n}]; ok {
			g.Leases = append(g.Leases, l)
		}
	}
	return g, nil
}

// Write implements [lease.Store].
func (m *Memory) Write(ctx context.Context, w lease.Write) (lease.Result, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return lease.Result{}, err
	}
	defer leave()
	m.writes++
	old, ok := m.leases[w.Item()]
	cur := &old
	if !ok {
		cur = nil
	}
	l, applied := w.Apply(cur)
	if !applied {
		return lease.Result{Lease: cur}, nil
	}
	m.leases[w.Item()] = l
	return lease.Result{Applied: true, Lease: &l}, nil
}

// WritePool implements [lease.Store].
func (m *Memory) WritePool(ctx context.Context, w lease.PoolWrite) (lease.PoolResult, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return lease.PoolResult{}, err
	}
	defer leave()
	m.writes++
	old, ok := m.pools[w.PoolName()]
	cur := &old
	if !ok {
		cur = nil
	}
	p, applied := w.Apply(cur)
	if !applied {
		return lease.PoolResult{Pool: cur}, nil
	}
	m.pools[w.PoolName()] = p
	return lease.PoolResult{Applied: true, Pool: &p}, nil
}
