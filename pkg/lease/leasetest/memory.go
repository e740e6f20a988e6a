// Package leasetest helps to test programs that use leases. It provides an in-memory
// [lease.Store] with simulated outages, and a clock that can be set.
//
// To simulate a crash, in which a holder ends without releasing its lease, close its agent
// during an outage: call [Memory.SetOutage], Close, and SetOutage(nil).
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Memory is an in-memory [lease.Store], for tests of programs that use leases. It is safe
// for concurrent use and linearizable. Its contents are lost when the process exits.
type Memory struct {
	mu     sync.Mutex
	pools  map[string]protocol.PoolItem
	leases map[protocol.Key]protocol.Lease
	reaper map[string]protocol.ReaperMemory
	notes  map[string]protocol.Note
	outage error
}

var _ lease.Store = (*Memory)(nil)

// NewMemory returns a store with one pool, whose node IDs are 0 to size-1 and whose floor
// is the current time. If size is 0, the store has no pools. NewMemory panics if no pool
// can have the given size or name.
func NewMemory(pool string, size int) *Memory {
	m := &Memory{pools: map[string]protocol.PoolItem{}, leases: map[protocol.Key]protocol.Lease{}, reaper: map[string]protocol.ReaperMemory{}, notes: map[string]protocol.Note{}}
	if size == 0 {
		return m
	}
	spec := leasepool.Spec{Size: size, Floor: time.Now()}
	// Pool.Seed limits its rate of writes to what a table accepts. Memory needs no limit, so
	// the node IDs are created here, and Seed finds that they exist.
	for n := range min(size, protocol.MaxPoolSize) {
		w := protocol.Seed{Key: protocol.Key{Pool: pool, NodeID: n}, Floor: spec.Floor}
		m.leases[w.Item()], _ = w.Apply(nil)
	}
	if _, err := leasepool.Open(m, pool).Seed(context.Background(), spec); err != nil {
		panic(err)
	}
	return m
}

// SetOutage makes all other methods fail with err and do nothing, until SetOutage(nil) is
// called.
func (m *Memory) SetOutage(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outage = err
}

// enter begins a call. It returns an error during an outage, or if the caller's context
// has ended.
func (m *Memory) enter(ctx context.Context) (leave func(), err error) {
	if err := protocol.CheckContext(ctx); err != nil {
		return nil, err
	}
	if m == nil || m.pools == nil {
		return nil, fmt.Errorf("%w: this leasetest.Memory is nil or zero: NewMemory returns one", protocol.ErrArgument)
	}
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

// Judge implements [protocol.Judge]. All of its verdicts name the same Region and table.
func (m *Memory) Judge(ctx context.Context) (*protocol.Verdict, error) {
	at := time.Now()
	if err := m.Check(ctx); err != nil {
		return nil, err
	}
	region, table := m.Place()
	return &protocol.Verdict{Region: region, Table: table, At: at, Safe: true}, nil
}

// Place returns the Region and the table that the verdicts name.
func (m *Memory) Place() (region, table string) { return "memory", "memory" }

// PoolItem implements [lease.Store].
func (m *Memory) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return protocol.PoolItem{}, err
	}
	defer leave()
	p, ok := m.pools[pool]
	if !ok {
		return p, fmt.Errorf("%w: no pool %q in memory", lease.ErrPoolNotSeeded, pool)
	}
	return p, nil
}

// Get implements [lease.Store].
func (m *Memory) Get(ctx context.Context, pool string, nodeID int) (*protocol.Lease, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if l, ok := m.leases[protocol.Key{Pool: pool, NodeID: nodeID}]; ok {
		l = l.Clone()
		return &l, nil
	}
	return nil, nil
}

// Group implements [lease.Store].
func (m *Memory) Group(ctx context.Context, pool string, group int) (protocol.Group, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return protocol.Group{}, err
	}
	defer leave()
	var g protocol.Group
	for n := group * protocol.GroupSize; n < (group+1)*protocol.GroupSize; n++ {
		if l, ok := m.leases[protocol.Key{Pool: pool, NodeID: n}]; ok {
			g.Leases = append(g.Leases, l.Clone())
		}
	}
	return g, nil
}

// Write implements [lease.Store].
func (m *Memory) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return protocol.Result{}, err
	}
	defer leave()
	old, ok := m.leases[w.Item()]
	old = old.Clone() // nobody outside shares a map with the store
	cur := &old
	if !ok {
		cur = nil
	}
	l, applied := w.Apply(cur)
	if !applied {
		return protocol.Result{Lease: cur}, nil
	}
	m.leases[w.Item()] = l.Clone()
	return protocol.Result{Applied: true, Lease: &l}, nil
}

// WritePool implements [lease.Store].
func (m *Memory) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return protocol.PoolResult{}, err
	}
	defer leave()
	old, ok := m.pools[w.PoolName()]
	cur := &old
	if !ok {
		cur = nil
	}
	p, applied := w.Apply(cur)
	if !applied {
		return protocol.PoolResult{Pool: cur}, nil
	}
	m.pools[w.PoolName()] = p
	return protocol.PoolResult{Applied: true, Pool: &p}, nil
}

// ReaperMemory implements [lease.Store].
func (m *Memory) ReaperMemory(ctx context.Context, pool string) (protocol.ReaperMemory, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return protocol.ReaperMemory{}, err
	}
	defer leave()
	r := m.reaper[pool]
	r.Pool = pool
	return r, nil
}

// WriteReaperMemory implements [lease.Store].
func (m *Memory) WriteReaperMemory(ctx context.Context, w protocol.MemoryWrite) (bool, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	r, applied := w.Apply(m.reaper[w.PoolName()])
	if applied {
		m.reaper[w.PoolName()] = r
	}
	return applied, nil
}

// Note implements [protocol.NoteStore].
func (m *Memory) Note(ctx context.Context, pool string) (protocol.Note, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return protocol.Note{}, err
	}
	defer leave()
	return m.note(pool), nil
}

func (m *Memory) note(pool string) protocol.Note {
	n := m.notes[pool]
	n.Pool, n.Offers = pool, slices.Clone(n.Offers)
	return n
}

// WriteNote implements [protocol.NoteStore].
func (m *Memory) WriteNote(ctx context.Context, w protocol.NoteWrite) (protocol.Note, bool, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return protocol.Note{}, false, err
	}
	defer leave()
	n, applied := w.Apply(m.note(w.PoolName()))
	if applied {
		m.notes[w.PoolName()] = n
	}
	return m.note(w.PoolName()), applied, nil
}
