package snowflake

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1 // linux/include/uapi/linux/time.h
	clockBoottime  = 7
)

// bootAhead is CLOCK_BOOTTIME - CLOCK_MONOTONIC when the process began. It is
// subtracted so that earlier suspends are not included. The thread may lose the
// CPU between the two readings. Since the monotonic clock is read first, bootAhead
// can then be too large, but never too small.
var bootAhead, haveBoot = func() (int64, bool) {
	mono, ok1 := gettime(clockMonotonic)
	boot, ok2 := gettime(clockBoottime)
	return boot - mono, ok1 && ok2
}()

// suspendedSinceStart returns how long the machine has been suspended since the
// process began, in ns. The boot time is read first. So if the thread loses the
// CPU between the two readings, the result is too small, never too large, and the
// next check finds the rest.
func suspendedSinceStart() int64 {
	boot, ok1 := gettime(clockBoottime)
	mono, ok2 := gettime(clockMonotonic)
	if !ok1 || !ok2 || !haveBoot {
		return 0
	}
	return boot - mono - bootAhead
}

// gettime calls clock_gettime(2) directly. The call never blocks, so RawSyscall
// can be used, which does not inform the Go scheduler.
func gettime(clock uintptr) (int64, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0) //nolint:gosec // the kernel fills ts in before it returns
	return ts.Nano(), errno == 0
}

// preciseSleep waits for d, with an accuracy of about 60 µs. Go's own timers round
// waits below a millisecond up to a millisecond. At 4,096 IDs per millisecond,
// that would lose a whole tick. The thread blocks, so callers keep d short.
func preciseSleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // an early return is fine: callers check the clock again
}

// These are offsets and values in the page of a VMClock device; see
// linux/include/uapi/linux/vmclock-abi.h. The fields are little endian.
const (
	vmclockMagic      = 0x4b4c4356 // "VCLK", at 0
	vmclockSize       = 4          // offset of the region's size, 32 bits
	vmclockVersion    = 8          // 16 bits
	vmclockFlags      = 24         // 64 bits
	vmclockGeneration = 104        // 64 bits; changes with each restore from a snapshot

	vmclockHasGeneration = 1 << 8
)

// machineGeneration returns the generation counter of this machine, which the
// hypervisor changes when it restores the machine from a snapshot, or nil if there
// is none.
var machineGeneration = sync.OnceValue(func() *uint64 { return mapGeneration("/dev/vmclock0") })

// mapGeneration maps the generation counter of a VMClock device into memory for as
// long as the process lives. It returns nil if the device is missing, cannot be
// read or has no generation counter.
func mapGeneration(path string) *uint64 {
	device, err := os.Open(path) //nolint:gosec // the names are constants
	if err != nil {
		return nil
	}
	defer device.Close()
	page, err := syscall.Mmap(int(device.Fd()), 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	read := binary.LittleEndian
	if read.Uint32(page) != vmclockMagic || read.Uint16(page[vmclockVersion:]) != 1 ||
		read.Uint32(page[vmclockSize:]) < vmclockGeneration+8 || read.Uint64(page[vmclockFlags:])&vmclockHasGeneration == 0 {
		_ = syscall.Munmap(page)
		return nil
	}
	return (*uint64)(unsafe.Pointer(&page[vmclockGeneration])) //nolint:gosec // the page stays mapped
}
