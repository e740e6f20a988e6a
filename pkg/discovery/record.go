package discovery

import (
	"context"
	"fmt"

	"github.com/nodelease/nodelease/pkg/lease"
)

// record is an item: an entry at a place, or, in the partition of what is
// registered, where a number is entered. Without a holder it is gone.
type record struct {
	NodeID int    `dynamodbav:"node_id"`
	Holder string `dynamodbav:"holder,omitempty"`
	// Version is the lease's, and Revision counts the writes of that version's
	// holder. Together they say which of two records is the newer.
	Version  int64    `dynamodbav:"version"`
	Revision int64    `dynamodbav:"revision"`
	Address  *Address `dynamodbav:"metadata,omitempty"`
	Places   []string `dynamodbav:"places,omitempty"`
	// Leases is what a reader left for others; see shared.go.
	Leases map[string]lent `dynamodbav:"leases,omitempty"`
}

// buried is the record of a number that version's holder left: newer than
// anything that holder ever sends, older than anything of the next one.
func buried(nodeID int, version int64) record { return record{NodeID: nodeID, Version: version + 1} }

// olderThan reports whether o replaces r.
func (r record) olderThan(o record) bool {
	return r.Version < o.Version || r.Version == o.Version && r.Revision < o.Revision
}

// same reports whether r is what writing o leaves.
func (r record) same(o record) bool {
	return r.Holder == o.Holder && r.Version == o.Version && r.Revision == o.Revision
}

// Store keeps what is registered, beside the leases. [NewTable] is the one that
// counts; [NewMemory] is for tests.
type Store interface {
	// leases are the leases that entries count with.
	leases() lease.Store
	// query reads a partition; what it gives may be a second old.
	query(ctx context.Context, partition string) ([]record, error)
	// get reads one record, strongly consistent; a zero one where there is none.
	get(ctx context.Context, partition string, nodeID int) (record, error)
	// write replaces what is older than r, and gives what is there now.
	write(ctx context.Context, partition string, r record) (now record, applied bool, err error)
}

// newerError says that a write was refused by something newer.
type newerError struct {
	partition string
	sent, now record
}

func (e *newerError) Error() string {
	return fmt.Sprintf("discovery: %s of node %d has version %d and revision %d, which is newer than version %d and revision %d",
		e.partition, e.now.NodeID, e.now.Version, e.now.Revision, e.sent.Version, e.sent.Revision)
}

// put writes r. That it is there already, by an attempt whose answer was lost, is
// a success.
func put(ctx context.Context, s Store, partition string, r record) error {
	now, applied, err := s.write(ctx, partition, r)
	if err != nil || applied || now.same(r) {
		return err
	}
	return &newerError{partition, r, now}
}
