package lease

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a start that no retry mends. The text says what to do.
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
	// ErrClockBehind is returned when milliseconds of every free number are
	// reserved further ahead of this machine's clock than any holder reserves.
	ErrClockBehind = errors.New("lease: clock behind")
	// ErrPoolExhausted is returned when every number is held; errors.As with
	// *ExhaustedError tells how many there are and when the next one expires.
	ErrPoolExhausted = errors.New("lease: pool exhausted")
)

// Errors of a running lease.
var (
	// ErrSuspended is returned while the deadline has passed and no renewal was
	// confirmed since: nothing may rely on the lease, yet it may come back.
	ErrSuspended = errors.New("lease: suspended")
	// ErrLost is returned when the number is someone else's, for good.
	ErrLost = errors.New("lease: lost")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("lease: closed")
)

// ExhaustedError says how full the pool is. It is an ErrPoolExhausted.
type ExhaustedError struct {
	Pool string
	Size int // usable numbers that were looked at
	// Unseen groups of 256 were not looked at: of a large pool a start looks at 16.
	Unseen int
	// NextFree is when the next number could be taken if its holder stops
	// renewing; zero when no number can ever be (all retired or corrupt).
	NextFree time.Time
}

func (e *ExhaustedError) Error() string {
	next := "none of them will expire"
	if !e.NextFree.IsZero() {
		next = "the next one is free at " + stamp(e.NextFree) + " at the earliest, unless renewed"
	}
	of := fmt.Sprintf("all %d numbers of pool %q are taken", e.Size, e.Pool)
	if e.Unseen > 0 {
		of = fmt.Sprintf("all %d numbers of pool %q that were looked at are taken (%d groups of %d were not)", e.Size, e.Pool, e.Unseen, GroupSize)
	}
	return fmt.Sprintf("%v: %s; %s; resize the pool, or set Config.Wait", ErrPoolExhausted, of, next)
}

// Is makes the error an ErrPoolExhausted.
func (e *ExhaustedError) Is(target error) bool { return target == ErrPoolExhausted }

// CorruptError is an item with missing or wrongly typed attributes. It blocks
// nobody: the number is skipped and reported, and nothing heals it into a fresh
// one, since that could repeat IDs.
type CorruptError struct {
	Pool   string
	NodeID int // -1: the pool's own item
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("lease: item of node %d in pool %q is corrupt: %v", e.NodeID, e.Pool, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// errUnfit is returned when a number was claimed that this process cannot use:
// its generators' layout is too narrow for a pool that has grown, or it closes.
var errUnfit = errors.New("lease: number unusable")

// permanent reports whether err is of the kind that no retry mends.
func permanent(err error) bool {
	for _, e := range []error{ErrTable, ErrAccess, ErrUnsafeReplication, ErrItemFormat, ErrPoolNotSeeded, ErrClockSkew, errUnfit} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// stamp prints a time as the logs of AWS do: UTC, milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
