package entries

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Memory is an in-memory [Store].
type Memory struct {
	Sealed
	store protocol.Store

	mu         sync.Mutex
	partitions map[string]map[int]Record
	outage     error
}

var _ Store = (*Memory)(nil)

// NewMemory returns a store that keeps entries in memory, for leases in any store.
func NewMemory(leases protocol.Store) *Memory {
	return &Memory{store: leases, partitions: map[string]map[int]Record{}}
}

// Leases implements [Store].
func (m *Memory) Leases() protocol.Store { return m.store }

// Query implements [Store].
func (m *Memory) Query(ctx context.Context, partition string) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Record
	for _, n := range slices.Sorted(maps.Keys(m.partitions[partition])) {
		all = append(all, m.partitions[partition][n])
	}
	return all, m.failed(ctx)
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, partition string, nodeID int) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partitions[partition][nodeID], m.failed(ctx)
}

// Write implements [Store].
func (m *Memory) Write(ctx context.Context, partition string, r Record) (Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failed(ctx); err != nil {
		return Record{}, false, err
	}
	if now, ok := m.partitions[partition][r.NodeID]; ok && !now.OlderThan(r) {
		return now, false, nil
	}
	if m.partitions[partition] == nil {
		m.partitions[partition] = map[int]Record{}
	}
	m.partitions[partition][r.NodeID] = r
	return r, true, nil
}

// SetOutage makes every call fail with err; nil ends the outage.
func (m *Memory) SetOutage(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outage = err
}

// Partitions returns a copy of all records, by partition and node ID.
func (m *Memory) Partitions() map[string]map[int]Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]map[int]Record{}
	for partition, records := range m.partitions {
		all[partition] = maps.Clone(records)
	}
	return all
}

// failed returns the error of ctx, or of the outage; the caller holds mu.
func (m *Memory) failed(ctx context.Context) error {
	if err := protocol.CheckContext(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.outage
}
