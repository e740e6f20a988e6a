package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Child is the running program, as its owner sees it.
type Child struct {
	spec     Spec
	guardian *exec.Cmd
	alarm    *alarm
	terminal bool
	ended    chan error

	mu       sync.Mutex
	pipe     *os.File
	deadline boot
	report   *os.File
}

// patience is how long after the deadline the owner waits for a frozen guardian before it
// kills the guardian. It is also the longest pause between attempts to kill.
const patience = time.Second

// Start starts the program. It may be called once in a process.
func Start(path string, spec Spec) (*Child, error) {
	// If the guardian is killed, this process adopts its children, instead of init.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{spec: spec, terminal: OnTerminal(), ended: make(chan error, 1)}
	if c.alarm, err = newAlarm(); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c.pipe = w
	reports, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	c.report = reports
	c.guardian = exec.Command(self, append([]string{GuardianCommand, path}, spec.Args...)...) //nolint:gosec // it is this program itself
	c.guardian.Stdin, c.guardian.Stdout, c.guardian.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.guardian.Env = spec.Env
	c.guardian.ExtraFiles = []*os.File{r, told}
	// The guardian is in a separate group, so that signals that a terminal or a shell sends
	// to this job do not stop it.
	c.guardian.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	set := settings{GraceNS: int64(spec.Grace)}
	if c.terminal {
		set.Group = syscall.Getpgrp()
	}
	if set.Deadline, err = c.measure(); err != nil {
		return nil, err
	}
	if err := c.guardian.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", self, err), w.Close())
	}
	go func() { c.ended <- c.guardian.Wait() }()
	c.tell(set)
	return c, nil
}

// measure updates the deadline and the alarm. It reads the clock before it reads the time
// left, so that a pause in between makes the deadline earlier, never later.
func (c *Child) measure() (boot, error) {
	now, err := bootNow()
	if err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = max(c.deadline, now.add(c.spec.Left()))
	return c.deadline, c.alarm.set(c.deadline)
}

// tell sends an order without waiting. If the guardian has left several thousand
// orders unread, the pipe is full and the order is lost, which leaves the guardian with an earlier
// deadline. A guardian that has ended needs no orders.
func (c *Child) tell(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, err := c.pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Write(func(fd uintptr) (done bool) {
		_, _ = unix.Write(int(fd), text) // the pipe takes so short a write as a whole or not at all
		return true
	})
}

// Extend reads the time left again, and tells the guardian the new deadline.
func (c *Child) Extend() error {
	deadline, err := c.measure()
	if err == nil {
		c.tell(order{Deadline: deadline})
	}
	return err
}

// Signal passes a signal on to the child.
func (c *Child) Signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		c.tell(order{Signal: n})
	}
}

// Stop ends the child: it sends SIGTERM now, and SIGKILL after the grace period or at the
// deadline, whichever is earlier.
func (c *Child) Stop() { c.tell(order{Stop: true}) }

// End kills the child without a grace period. It is for a lease that has run out by a clock
// other than the one that measures the deadline.
func (c *Child) End() { c.tell(order{Stop: true, Now: true}) }

// Wait waits until the child and everything that it started have ended. It returns the exit
// code, and whether the child was ended because the lease was over. The error is non-nil
// only if the guardian was killed. If the program could not be run, the guardian has
// already printed why.
func (c *Child) Wait() (code int, stopped bool, err error) {
	late := false
	for {
		select {
		case err := <-c.ended:
			bury()
			c.alarm.close()
			state := c.guardian.ProcessState
			if state == nil || !state.Exited() {
				return CodeOwn, late, fmt.Errorf("the guardian of %s ended: %w", c.spec.Args[0], err)
			}
			var r report
			_ = json.NewDecoder(c.report).Decode(&r) // there is no report if the program could not be run
			return state.ExitCode(), r.Stopped, nil
		case <-c.alarm.C:
			// The guardian kills all processes at the deadline. The owner does too, in case
			// the guardian is frozen.
			now, err := bootNow()
			c.mu.Lock()
			deadline := c.deadline
			c.mu.Unlock()
			if err == nil && now < deadline {
				continue
			}
			late = true
			signalBelow(c.guardian.Process.Pid, syscall.SIGKILL)
			if err != nil || now >= deadline.add(patience) || c.alarm.set(now.add(wake)) != nil {
				_ = c.guardian.Process.Kill()
			}
		}
	}
}

// bury kills and reaps the processes that a killed guardian has left. It returns when the
// kernel reports that there is no child. A scan of the process table would not be enough,
// because it may miss a process whose parent dies during the scan.
func bury() {
	for pause := wake; ; pause = min(2*pause, patience) {
		signalBelow(os.Getpid(), syscall.SIGKILL)
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.ECHILD) {
				return
			}
			if pid == 0 {
				break
			}
		}
		time.Sleep(pause)
	}
}

// OnTerminal reports whether stdin, stdout or stderr is a terminal.
func OnTerminal() bool {
	for fd := range 3 {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			return true
		}
	}
	return false
}
