package discovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/protocol"
)

type (
	record  = entries.Record
	finding = entries.Finding
)

// maxHolder is the maximum length of a session in bytes; a longer Holder is corrupt.
const maxHolder = 64

// checkEntry returns an error if Register would not write such an entry, because an
// address that is out of bounds could harm processes that dial it. Register checks the
// same bounds.
func checkEntry(r record, at place) error {
	switch {
	case r.Corrupt != nil:
		return r.Corrupt
	case r.NodeID < 0 || r.NodeID >= protocol.MaxPoolSize:
		return fmt.Errorf("node ID %d is out of bounds", r.NodeID)
	case r.Version < 0 || r.Revision < 0:
		return fmt.Errorf("version %d or revision %d is out of bounds", r.Version, r.Revision)
	case len(r.Holder) > maxHolder || !printable(r.Holder):
		return fmt.Errorf("holder %.80q is not a session", r.Holder)
	case r.Holder != "" && r.Address == nil && at != listsPlace:
		return errors.New("it has no address")
	case r.Holder != "" && r.Address != nil:
		return Address(*r.Address).check()
	}
	return nil
}

// buried returns the record that replaces a record of the holder of version, which is
// gone. The new record is newer than anything that this holder ever sends, and older than
// anything that the next holder sends.
func buried(nodeID int, version int64) record { return record{NodeID: nodeID, Version: version + 1} }

// Store keeps registrations, together with the leases. NewTable returns the production
// store, discoverytest.NewMemory a store for tests. Store is sealed, because its methods
// take records that are internal to this module.
type Store interface{ entries.Store }

// newerError reports that a write was refused by a newer record. That record may be corrupt.
type newerError struct {
	partition string
	sent, now record
}

func (e *newerError) Error() string {
	if e.now.Corrupt != nil {
		return fmt.Sprintf("discovery: %s of node %d is not replaced by version %d and revision %d: %v", e.partition, e.now.NodeID, e.sent.Version, e.sent.Revision, e.now.Corrupt)
	}
	return fmt.Sprintf("discovery: %s of node %d has version %d and revision %d, which is newer than version %d and revision %d",
		e.partition, e.now.NodeID, e.now.Version, e.now.Revision, e.sent.Version, e.sent.Revision)
}

// put writes r. It also succeeds if an earlier attempt, whose answer was lost, has
// already stored r.
func put(ctx context.Context, s Store, partition string, r record) error {
	now, applied, err := s.Write(ctx, partition, r)
	if err != nil || applied || now.Same(r) {
		return err
	}
	return &newerError{partition, r, now}
}
