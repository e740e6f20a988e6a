package snowflake

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrFenced is returned when the node may not stamp now: nothing has been
	// leased yet, the deadline or the end of the span has passed, or the lease was
	// lost. A confirmed renewal or another claim makes the
	// same generator usable again: retry later, or stop.
	ErrFenced = errors.New("snowflake: fenced: the node ID is not leased now; retry after its next renewal")

	// ErrClosed is returned when the node was closed: retrying does not help.
	ErrClosed = errors.New("snowflake: closed: the node ID was released")

	// ErrBusy is returned by TryNext when this tick's sequence is used up, and by
	// Next when it would have to wait longer than WithMaxWait allows.
	ErrBusy = errors.New("snowflake: busy: every sequence number of this tick is taken; retry in a millisecond")

	// ErrTimeOverflow is returned when the layout's time field has overflowed.
	// Layout.Expires returns the time at which that happens.
	ErrTimeOverflow = errors.New("snowflake: the layout's time field is exhausted; use a layout with a later epoch or more time bits")

	// ErrSyntax is wrapped by the errors for a text or number that is not an ID.
	ErrSyntax = errors.New("not a snowflake ID")
)

// ClockError is returned when the clock is too far behind the next millisecond
// that may be stamped. Either the wall clock stepped back by more than
// WithMaxBackward allows, or the clock of the node ID's previous holder was
// ahead. After the time Behind, calls succeed again.
type ClockError struct {
	Behind time.Duration // how long it takes until the clock has caught up
}

// Error returns a message that states how far the clock is behind.
func (e *ClockError) Error() string {
	return fmt.Sprintf("snowflake: the clock is %v behind the next millisecond that may be stamped; retry when it has caught up", e.Behind)
}
