package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// These are the errors of Start that an immediate retry does not fix. Their texts name
// the remedy.
var (
	// ErrTable is returned when the table does not exist or has different keys.
	ErrTable = protocol.ErrTable
	// ErrAccess is returned when credentials or permissions are missing.
	ErrAccess = protocol.ErrAccess
	// ErrUnsafeReplication is returned when the table is a global table with
	// eventual consistency, because two Regions could then lease the same node ID.
	ErrUnsafeReplication = protocol.ErrUnsafeReplication
	// ErrItemFormat is returned when the pool was written by a release with another item
	// format, newer or older.
	ErrItemFormat = protocol.ErrItemFormat
	// ErrPoolNotSeeded is returned when the table does not contain the pool.
	ErrPoolNotSeeded = protocol.ErrPoolNotSeeded
	// ErrClockSkew is returned when this machine's clock and the store's differ
	// by more than the guards tolerate.
	ErrClockSkew = protocol.ErrClockSkew
	// ErrClockBehind is returned when no node ID was found and this machine's clock is
	// behind the store's by more than the guards tolerate. If the clock is behind by less
	// than that, a pool that was just seeded looks exhausted until the clock reaches the
	// time at which it was seeded: set Config.Wait to a few seconds.
	ErrClockBehind = errors.New("lease: clock behind")
	// ErrPoolExhausted is returned when no node ID can be claimed. An *ExhaustedError (see
	// errors.As) contains the number of node IDs and the time when the next one becomes
	// free.
	ErrPoolExhausted = errors.New("lease: pool exhausted")
)

// These are the errors of a running lease.
var (
	// ErrSuspended is returned after the deadline has passed, until a renewal is confirmed:
	// nothing may rely on the lease, but the lease may resume.
	ErrSuspended = errors.New("lease: suspended")
	// ErrLost is returned when the node ID is lost permanently, usually to another process.
	ErrLost = errors.New("lease: lost")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("lease: closed")
)

// CorruptError reports an item with missing attributes or attributes of the wrong type.
// It names the node ID (-1 for the pool's own item) and the cause. Agents skip and report
// a corrupt node ID, and claim another one. The item is never replaced by a new one,
// since IDs could then repeat.
type CorruptError = protocol.CorruptError

// ExhaustedError is an ErrPoolExhausted with the occupancy of the pool.
type ExhaustedError struct {
	Pool string
	Size int // usable node IDs in the groups that were searched
	// unseen is how many groups were not searched: a start searches only 16 groups of a
	// large pool.
	unseen int
	// NextFree is the earliest time at which a node ID could be claimed if its holder stops
	// renewing. It is zero if no node ID can ever be claimed, because all of them are
	// retired or corrupt.
	NextFree time.Time
}

func (e *ExhaustedError) Error() string {
	next := "none will expire"
	if !e.NextFree.IsZero() {
		next = "the next one is free at " + protocol.Stamp(e.NextFree) + " at the earliest, unless renewed"
	}
	// A node ID is free if it is not held, and not reserved by an earlier holder or by a
	// floor. A node ID without a holder may still be reserved.
	of := fmt.Sprintf("none of the %d node IDs of pool %q is free", e.Size, e.Pool)
	switch {
	case e.Size == 1:
		of = fmt.Sprintf("the only node ID of pool %q is not free", e.Pool)
	case e.unseen > 0:
		of = fmt.Sprintf("none of the %d node IDs of pool %q that were looked at is free (%d groups of %d were not)", e.Size, e.Pool, e.unseen, protocol.GroupSize)
	}
	return fmt.Sprintf("%v: %s; %s; wait for it (Config.Wait, --wait), or resize the pool", ErrPoolExhausted, of, next)
}

// Is reports whether target is ErrPoolExhausted, for errors.Is.
func (e *ExhaustedError) Is(target error) bool { return target == ErrPoolExhausted }

// errUnfit is returned when this process cannot use a node ID that it claimed: its
// generators' layout is too narrow for a pool that has grown, or the agent is closing.
var errUnfit = errors.New("lease: node ID unusable")

// whose describes the current state of a node ID that the holder of the given version has
// lost.
func whose(cur *protocol.Lease, version int64) string {
	switch {
	case cur == nil:
		return "has no item any more: someone deleted it"
	case cur.Holder == "" && cur.Version > version:
		return "was taken by another process, which no longer has it"
	case cur.Holder == "":
		return "was freed by the reaper, by an operator or with a restored table"
	}
	return fmt.Sprintf("is held by %s since version %d", cur.Task, cur.Version)
}

// permanent reports whether err would occur again however often the request is retried.
func permanent(err error) bool { return errors.Is(err, errUnfit) || protocol.Permanent(err) }

// fatal reports whether err ends an agent that has lost its node ID, because this program
// can no longer use the pool. All other errors are retried, as they are for a renewal:
// tokens and permissions may be replaced, a table restored, or a clock corrected.
func fatal(err error) bool { return errors.Is(err, errUnfit) || errors.Is(err, ErrItemFormat) }
