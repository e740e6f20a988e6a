package supervise

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootTime returns CLOCK_BOOTTIME, the time since the machine was started, including the
// time during which it was suspended. It returns false if there is no such clock.
func BootTime() (time.Duration, bool) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, false
	}
	return time.Duration(now.Nano()), true
}
