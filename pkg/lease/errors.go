package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Errors of a start that no retry mends. The text says what to do.
var (
	// ErrTable is returned when the table does not exist or has other keys.
	ErrTable = protocol.ErrTable
	// ErrAccess is returned when AWS gives no credentials or no permission.
	ErrAccess = protocol.ErrAccess
	// ErrUnsafeReplication is returned when the table is a global table with
	// eventual consistency: two Regions would lease one number twice.
	ErrUnsafeReplication = protocol.ErrUnsafeReplication
	// ErrItemFormat is returned when the pool was written by a newer release.
	ErrItemFormat = protocol.ErrItemFormat
	// ErrPoolNotSeeded is returned when the table has no such pool.
	ErrPoolNotSeeded = protocol.ErrPoolNotSeeded
	// ErrClockSkew is returned when this machine's clock and the store's differ
	// by more than the guards tolerate.
	ErrClockSkew = protocol.ErrClockSkew
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

// CorruptError is an item with missing or wrongly typed attributes: it names the
// number, -1 for the pool's own item, and the cause. It blocks nobody: the number
// is skipped and reported, and nothing heals it into a fresh one, since that could
// repeat IDs.
type CorruptError = protocol.CorruptError

// ExhaustedError says how full the pool is. It is an ErrPoolExhausted.
type ExhaustedError struct {
	Pool string
	Size int // usable numbers that were looked at
	// unseen groups of 256 were not looked at: of a large pool a start looks at 16.
	unseen int
	// NextFree is when the next number could be taken if its holder stops
	// renewing; zero when no number can ever be (all retired or corrupt).
	NextFree time.Time
}

func (e *ExhaustedError) Error() string {
	next := "none of them will expire"
	if !e.NextFree.IsZero() {
		next = "the next one is free at " + protocol.Stamp(e.NextFree) + " at the earliest, unless renewed"
	}
	of := fmt.Sprintf("all %d numbers of pool %q are taken", e.Size, e.Pool)
	if e.unseen > 0 {
		of = fmt.Sprintf("all %d numbers of pool %q that were looked at are taken (%d groups of %d were not)", e.Size, e.Pool, e.unseen, protocol.GroupSize)
	}
	return fmt.Sprintf("%v: %s; %s; resize the pool, or wait for it (Config.Wait, --wait)", ErrPoolExhausted, of, next)
}

// Is makes the error an ErrPoolExhausted.
func (e *ExhaustedError) Is(target error) bool { return target == ErrPoolExhausted }

// errUnfit is returned when a number was claimed that this process cannot use:
// its generators' layout is too narrow for a pool that has grown, or it closes.
var errUnfit = errors.New("lease: number unusable")

// permanent reports whether err is of the kind that no retry mends.
func permanent(err error) bool { return errors.Is(err, errUnfit) || protocol.Permanent(err) }
