// Package entries has the records of service discovery: the items of registrations, and a
// store that keeps them in memory for tests.
package entries

import (
	"context"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Record is an item: an entry at a place, the list of the places at which a node ID has
// entries, or a reader's findings. An entry or a list without a holder was withdrawn.
type Record struct {
	NodeID int    `dynamodbav:"node_id"`
	Holder string `dynamodbav:"holder,omitempty"`
	// Version is the version of the lease, and Revision counts the writes of that
	// version's holder. Together they decide which of two records is newer.
	Version  int64    `dynamodbav:"version"`
	Revision int64    `dynamodbav:"revision"`
	Address  *Address `dynamodbav:"addresses,omitempty"`
	Places   []string `dynamodbav:"places,omitempty"`
	// Leases has a reader's findings about leases, for other readers. ReadAt is when that
	// reader read the leases, in milliseconds by its own clock.
	Leases map[string]Finding `dynamodbav:"leases,omitempty"`
	ReadAt int64              `dynamodbav:"read_at,omitempty"`

	Corrupt error `dynamodbav:"-"` // why the item cannot be decoded, or is out of bounds
}

// Address is the item's form of a discovery.Address, which has the same fields.
type Address struct {
	Host   string            `dynamodbav:"host"`
	Port   int               `dynamodbav:"port,omitempty"`
	Zone   string            `dynamodbav:"zone,omitempty"`
	Weight int               `dynamodbav:"weight,omitempty"`
	Labels map[string]string `dynamodbav:"labels,omitempty"`
}

// Finding is a reader's finding about a node ID: the version of its entry, and when the
// lease of that version ends, in milliseconds; Ends is 0 if that lease has ended.
type Finding struct {
	Version int64 `dynamodbav:"version"`
	Ends    int64 `dynamodbav:"ends,omitempty"`
}

// OlderThan reports whether o replaces r.
func (r Record) OlderThan(o Record) bool {
	return r.Version < o.Version || r.Version == o.Version && r.Revision < o.Revision
}

// Same reports whether r is the result of writing o.
func (r Record) Same(o Record) bool {
	return r.Holder == o.Holder && r.Version == o.Version && r.Revision == o.Revision
}

// Store keeps registrations, together with the leases. Every implementation embeds Sealed.
type Store interface {
	// Leases returns the store of the leases on which the entries depend.
	Leases() protocol.Store
	// Query reads a partition; the result may be a second old.
	Query(ctx context.Context, partition string) ([]Record, error)
	// Get reads one record, strongly consistent; a zero Record if there is none.
	Get(ctx context.Context, partition string, nodeID int) (Record, error)
	// Write stores r unless the stored record is as new or newer, and returns the record
	// that is stored afterwards.
	Write(ctx context.Context, partition string, r Record) (now Record, applied bool, err error)
	sealed()
}

// Sealed is embedded by the types of this module that implement Store.
type Sealed struct{}

func (Sealed) sealed() {}
