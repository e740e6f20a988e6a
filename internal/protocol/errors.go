package protocol

import (
	"errors"
	"fmt"
)

// Errors of a start that no retry fixes. The text says what to do.
var (
	// ErrTable is returned when the table does not exist or has other keys.
	ErrTable = errors.New("lease: table unusable")
	// ErrAccess is returned when AWS gives no credentials or no permission.
	ErrAccess = errors.New("lease: no access")
	// ErrUnsafeReplication is returned when the table is a global table with
	// eventual consistency: two Regions would lease one number twice.
	ErrUnsafeReplication = errors.New("lease: unsafe replication")
	// ErrItemFormat is returned when the pool was written by a newer release.
	ErrItemFormat = errors.New("lease: unknown item format")
	// ErrPoolNotSeeded is returned when the table has no such pool.
	ErrPoolNotSeeded = errors.New("lease: pool not seeded")
	// ErrClockSkew is returned when this machine's clock and the store's differ
	// by more than the guards tolerate.
	ErrClockSkew = errors.New("lease: clock skew")
)

// errNoTable is the ErrTable of a table that does not exist, as against one that is
// no table of ours.
var errNoTable = fmt.Errorf("%w", ErrTable)

// ErrUnchecked is returned by [Store.Check] when it was not permitted to look: a
// warning, for the role may well permit all that a lease needs.
var ErrUnchecked = errors.New("lease: table not checked")

// CorruptError is an item with missing or wrongly typed attributes. It blocks
// nobody: the number is skipped and reported, and nothing heals it into a fresh
// one, since that could repeat IDs.
type CorruptError struct {
	Pool   string
	NodeID int // -1: the pool's own item
	Err    error
	// Written is set where a write was done on the item, because its condition could
	// not see what is wrong: whoever has sent it takes it back.
	Written bool
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("lease: item of node %d in pool %q is corrupt: %v", e.NodeID, e.Pool, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Passing reports whether an error that is Permanent may pass all the same for a
// process that has time: tokens expire and are replaced, permissions and tables come
// with the rest of a deployment, clocks are repaired.
func Passing(err error) bool {
	for _, e := range []error{errNoTable, ErrAccess, ErrPoolNotSeeded, ErrClockSkew} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Permanent reports whether err is of the kind that no retry of the request helps. A
// corrupt item of the pool itself is, since nothing works without it.
func Permanent(err error) bool {
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && corrupt.NodeID == poolNode {
		return true
	}
	for _, e := range []error{ErrTable, ErrAccess, ErrUnsafeReplication, ErrItemFormat, ErrPoolNotSeeded, ErrClockSkew} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
