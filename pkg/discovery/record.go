package discovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// record is an item: an entry at a place, or the list of the places that a node ID is
// entered at. Without a holder it is gone.
type record struct {
	NodeID int    `dynamodbav:"node_id"`
	Holder string `dynamodbav:"holder,omitempty"`
	// Version is the lease's, and Revision counts the writes of that version's
	// holder. Together they say which of two records is the newer.
	Version  int64    `dynamodbav:"version"`
	Revision int64    `dynamodbav:"revision"`
	Address  *Address `dynamodbav:"addresses,omitempty"`
	Places   []string `dynamodbav:"places,omitempty"`
	// Leases has a reader's findings at ReadAt, in milliseconds by its own clock,
	// for other readers; see shared.go.
	Leases map[string]lent `dynamodbav:"leases,omitempty"`
	ReadAt int64           `dynamodbav:"read_at,omitempty"`

	corrupt error // the part of it that cannot be decoded, or is out of bounds
}

// Longer ones are not sessions.
const maxHolder = 64

// check reports an entry that Register does not write: addresses that are out of
// bounds could harm processes that dial them. Bounds are the same as on writing.
func (r record) check(at place) error {
	switch {
	case r.corrupt != nil:
		return r.corrupt
	case r.NodeID < 0 || r.NodeID >= protocol.MaxPoolSize:
		return fmt.Errorf("node ID %d is out of bounds", r.NodeID)
	case r.Version < 0 || r.Revision < 0:
		return fmt.Errorf("version %d or revision %d is out of bounds", r.Version, r.Revision)
	case len(r.Holder) > maxHolder || !printable(r.Holder):
		return fmt.Errorf("holder %.80q is no session", r.Holder)
	case r.Holder != "" && r.Address == nil && at != listsPlace:
		return errors.New("it has no address")
	case r.Holder != "" && r.Address != nil:
		return r.Address.check()
	}
	return nil
}

// buried returns the record of a node ID that version's holder left: newer than
// anything that holder ever sends, older than anything of the next one.
func buried(nodeID int, version int64) record { return record{NodeID: nodeID, Version: version + 1} }

// olderThan reports whether o replaces r.
func (r record) olderThan(o record) bool {
	return r.Version < o.Version || r.Version == o.Version && r.Revision < o.Revision
}

// same reports whether r is the result of writing o.
func (r record) same(o record) bool {
	return r.Holder == o.Holder && r.Version == o.Version && r.Revision == o.Revision
}

// Store keeps registrations, together with the leases. NewTable returns the production store;
// NewMemory is for tests.
type Store interface {
	// leases are the leases that entries count with.
	leases() lease.Store
	// query reads a partition; the result may be a second old.
	query(ctx context.Context, partition string) ([]record, error)
	// get reads one record, strongly consistent; a zero one if there is none.
	get(ctx context.Context, partition string, nodeID int) (record, error)
	// write replaces a record that is older than r, and returns the present one.
	write(ctx context.Context, partition string, r record) (now record, applied bool, err error)
}

// newerError reports that a write was refused by a newer record.
type newerError struct {
	partition string
	sent, now record
}

func (e *newerError) Error() string {
	return fmt.Sprintf("discovery: %s of node %d has version %d and revision %d, which is newer than version %d and revision %d",
		e.partition, e.now.NodeID, e.now.Version, e.now.Revision, e.sent.Version, e.sent.Revision)
}

// put writes r. If it is already there, by an attempt whose answer was lost, that
// is a success.
func put(ctx context.Context, s Store, partition string, r record) error {
	now, applied, err := s.write(ctx, partition, r)
	if err != nil || applied || now.same(r) {
		return err
	}
	return &newerError{partition, r, now}
}
