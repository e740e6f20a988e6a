package discovery

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Memory is an in-memory [Store], for tests of programs that use discovery.
type Memory struct {
	store lease.Store

	mu         sync.Mutex
	partitions map[string]map[int]record
	outage     error
}

var _ Store = (*Memory)(nil)

// NewMemory returns a store that keeps entries in memory, for leases in any store.
func NewMemory(leases lease.Store) *Memory {
	return &Memory{store: leases, partitions: map[string]map[int]record{}}
}

func (m *Memory) leases() lease.Store { return m.store }

func (m *Memory) query(ctx context.Context, partition string) ([]record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []record
	for _, n := range slices.Sorted(maps.Keys(m.partitions[partition])) {
		all = append(all, m.partitions[partition][n])
	}
	return all, m.failed(ctx)
}

func (m *Memory) get(ctx context.Context, partition string, nodeID int) (record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partitions[partition][nodeID], m.failed(ctx)
}

func (m *Memory) write(ctx context.Context, partition string, r record) (record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failed(ctx); err != nil {
		return record{}, false, err
	}
	if now, ok := m.partitions[partition][r.NodeID]; ok && !now.olderThan(r) {
		return now, false, nil
	}
	if m.partitions[partition] == nil {
		m.partitions[partition] = map[int]record{}
	}
	m.partitions[partition][r.NodeID] = r
	return r, true, nil
}

// failed returns the error for all calls at present; the caller holds mu.
func (m *Memory) failed(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.outage
}
