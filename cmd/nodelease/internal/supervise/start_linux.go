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

// Child is the program that runs, as its owner sees it.
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

// patience is how long a frozen guardian may let its end wait.
const patience = time.Second

// Start starts the program. It may be called once in a process.
func Start(path string, spec Spec) (*Child, error) {
	// Children that the guardian leaves if it is killed come to us, not to init.
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
	// A separate group: signals that a terminal or a shell sends to our job must
	// not stop it.
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

// measure takes the deadline over. The clock is read before the question how much
// is left, so that a pause in between makes it earlier, never later.
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

// tell sends an order. It does not wait, and it has no deadline that we could be
// frozen past: only a guardian that has not read some thousand orders misses one,
// which leaves it with an earlier deadline. One that has ended needs none.
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
		_, _ = unix.Write(int(fd), text) // all or nothing: a pipe does not split so short a write
		return true
	})
}

// Extend asks again how much is left.
func (c *Child) Extend() error {
	deadline, err := c.measure()
	if err == nil {
		c.tell(order{Deadline: deadline})
	}
	return err
}

// Signal sends a signal on.
func (c *Child) Signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		c.tell(order{Signal: n})
	}
}

// Stop ends the child: SIGTERM now, SIGKILL a grace later or at the deadline.
func (c *Child) Stop() { c.tell(order{Stop: true}) }

// End kills the child: its lease has run out by a clock that the deadline does not know.
func (c *Child) End() { c.tell(order{Stop: true, Now: true}) }

// Wait waits until the child and all that it started have ended, and returns its
// exit code, and whether it was ended because the lease was over. The error is that
// the guardian was killed; why a program could not be run it has printed itself.
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
			_ = json.NewDecoder(c.report).Decode(&r) // there is none if nothing was run
			return state.ExitCode(), r.Stopped, nil
		case <-c.alarm.C:
			// The guardian has killed all at this moment; if it is frozen, we do.
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

// bury kills and reaps the processes that a killed guardian has left. It is over when
// the kernel says that there is no child: a scan of the process table may by itself
// miss one whose parent dies during the scan.
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
