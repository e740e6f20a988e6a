package supervise

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// boot is a reading of CLOCK_BOOTTIME. All processes of a machine share this clock, it
// cannot be set, and it counts the time during which the machine was suspended.
type boot int64 // nanoseconds

func bootNow() (boot, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return boot(ts.Nano()), err
}

func (b boot) add(d time.Duration) boot { return b + boot(d) }

// alarm rings at a moment of CLOCK_BOOTTIME. It replaces Go's timers, which stop while the
// machine is suspended.
type alarm struct {
	file *os.File
	C    chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{os.NewFile(uintptr(fd), "alarm"), make(chan struct{}, 1)}
	go func() {
		var count [8]byte
		for {
			if _, err := a.file.Read(count[:]); err != nil {
				return // the alarm was closed
			}
			select {
			case a.C <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// set makes the alarm ring at a moment, or at once if that moment has passed. A ring for an
// earlier setting may still arrive, so the receiver checks the clock.
func (a *alarm) set(at boot) error {
	c, err := a.file.SyscallConn()
	if err != nil {
		return err
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 1)))} // 0 would turn the timer off
	var failed error
	err = c.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil) })
	if err == nil {
		err = os.NewSyscallError("timerfd_settime", failed)
	}
	return err
}

func (a *alarm) close() { _ = a.file.Close() }
