package protocol

import (
	"fmt"
	"time"
)

// CheckSkew returns ErrClockSkew if this machine's wall clock, read before and after a
// request, differs from the store's by more than limit. The store's time has whole seconds
// (the Date header), so CheckSkew ignores a difference that the round trip and one second
// can explain.
func CheckSkew(before, after, server time.Time, limit time.Duration) error {
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
		ErrClockSkew, Stamp(after), off.Round(time.Millisecond), word, Stamp(server), limit)
}

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Trunc truncates a time to milliseconds, as stored in the table.
func Trunc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// Stamp formats a time as in AWS logs: UTC, milliseconds.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
