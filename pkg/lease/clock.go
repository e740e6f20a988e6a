package lease

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Clock reads the two clocks of a machine; see [snowflake.Clock].
type Clock = snowflake.Clock

// checkSkew compares this machine's wall clock, read before and after a
// request, with the store's, which tells whole seconds (the Date header). Only
// what the round trip and the second cannot explain counts.
func checkSkew(before, after, server time.Time, limit time.Duration) error {
	if server.IsZero() {
		return nil
	}
	ahead := before.Sub(server.Add(time.Second)) // at least this far ahead
	behind := server.Sub(after)                  // at least this far behind
	if max(ahead, behind) <= limit {
		return nil
	}
	word, off := "ahead of", ahead
	if behind > ahead {
		word, off = "behind", behind
	}
	return fmt.Errorf("%w: this machine's clock says %s and is at least %v %s the store's, which says %s; tolerated are %v: repair its time synchronization",
		ErrClockSkew, stamp(after), off.Round(time.Millisecond), word, stamp(server), limit)
}
