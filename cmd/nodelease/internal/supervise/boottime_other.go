//go:build !linux

package supervise

import "time"

// BootTime reads CLOCK_BOOTTIME: the time since the machine was started, suspended
// or not. It is false if there is none.
func BootTime() (time.Duration, bool) { return 0, false }
