package protocol

import (
	"errors"
	"fmt"
)

// Errors at a start that a retry does not fix. Their texts name the remedy; pkg/lease
// describes each.
var (
	ErrTable             = errors.New("lease: table unusable")
	ErrAccess            = errors.New("lease: no access")
	ErrUnsafeReplication = errors.New("lease: unsafe replication")
	ErrItemFormat        = errors.New("lease: unknown item format")
	ErrPoolNotSeeded     = errors.New("lease: pool not seeded")
	ErrClockSkew         = errors.New("lease: clock skew")
)

// errNoTable is the ErrTable for a table that does not exist, as opposed to one with
// different keys.
var errNoTable = fmt.Errorf("%w", ErrTable)

// errForeign is wrapped by the error of a partition with more items than Nodelease writes.
var errForeign = errors.New("the partition has foreign items")

// ErrUnchecked is returned by [Store.Check] when the role does not permit the check. It is
// only a warning, since the role may still permit everything that a lease needs.
var ErrUnchecked = errors.New("lease: table not checked")

// CorruptError reports an item with missing or wrongly typed attributes. Such an item
// blocks no one: its node ID is skipped and reported. The item is never replaced by a new
// one, since the new item could permit repeated IDs.
type CorruptError struct {
	Pool   string
	NodeID int // -1: the pool's own item
	Err    error
	// Written is set if a write was applied to the item because its condition could
	// not detect the defect. The sender must then undo the write.
	Written bool
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("lease: item of node %d in pool %q is corrupt: %v", e.NodeID, e.Pool, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Passing reports whether a Permanent error may still go away while a process waits: tokens
// expire and are replaced, permissions and tables arrive with the rest of a deployment, and
// clocks are corrected.
func Passing(err error) bool {
	for _, e := range []error{errNoTable, ErrAccess, ErrPoolNotSeeded, ErrClockSkew} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Permanent reports whether err is an error that a retry does not fix. These errors include
// a corrupt item of the pool itself, since nothing works without that item.
func Permanent(err error) bool {
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && corrupt.NodeID == poolNode {
		return true
	}
	for _, e := range []error{ErrTable, ErrAccess, ErrUnsafeReplication, ErrItemFormat, ErrPoolNotSeeded, ErrClockSkew, ErrArgument, errForeign} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
