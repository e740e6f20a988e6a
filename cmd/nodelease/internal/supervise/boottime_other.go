//go:build !linux

package supervise

import "time"

// BootTime returns false, since only Linux has CLOCK_BOOTTIME.
func BootTime() (time.Duration, bool) { return 0, false }
