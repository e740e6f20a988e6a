//go:build !linux

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Child is the running program, as its owner sees it.
//
// On this platform it promises less than on Linux. There is no guardian, so if the owner is
// killed with SIGKILL, or frozen, nothing ends the child at the deadline. The child's own
// children are ended only if they have stayed in its process group, and on Windows not at
// all. Time during which the machine was suspended does not count.
type Child struct {
	spec  Spec
	cmd   *exec.Cmd
	ended chan error

	mu       sync.Mutex
	timer    *time.Timer
	deadline time.Time
	stopping bool
	stopped  bool
}

// Weaker describes the promises that do not hold on this platform.
const Weaker = "on this platform nothing ends the program if exec itself is frozen or killed with SIGKILL"

// GuardianCommand is a command that fails on this platform, which has no guardian.
const GuardianCommand = "exec-guardian"

// Guard returns an error: the guardian exists only on Linux.
func Guard(string, []string) (int, error) { return CodeOwn, errors.ErrUnsupported }

// Start starts the program.
func Start(path string, spec Spec) (*Child, error) {
	c := &Child{spec: spec, ended: make(chan error, 1)}
	c.cmd = &exec.Cmd{Path: path, Args: spec.Args, Env: spec.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: attributes()}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { c.ended <- c.cmd.Wait() }()
	return c, c.Extend()
}

// Extend reads the time left again, and moves the deadline.
func (c *Child) Extend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil
	}
	c.deadline = time.Now().Add(c.spec.Left())
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(time.Until(c.deadline)-c.spec.Grace, c.Stop)
	return nil
}

// Signal passes a signal on to the child.
func (c *Child) Signal(s os.Signal) { _ = c.cmd.Process.Signal(s) }

// Stop ends the child: it sends SIGTERM now, and SIGKILL after the grace period or at the
// deadline, whichever is earlier.
func (c *Child) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return
	}
	c.stopping, c.stopped = true, true
	terminate(c.cmd)
	time.AfterFunc(min(c.spec.Grace, time.Until(c.deadline)), func() { kill(c.cmd) })
}

// End kills the child without a grace period. It is for a lease that has run out by a clock
// other than the one that measures the deadline.
func (c *Child) End() {
	c.Stop()
	kill(c.cmd)
}

// Wait waits until the child has ended, and returns its exit code, and whether it was
// ended because the lease was over.
func (c *Child) Wait() (code int, stopped bool, err error) {
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	c.timer.Stop()
	kill(c.cmd) // the remaining processes of its group
	return exitCode(c.cmd.ProcessState), c.stopped, nil
}

// OnTerminal returns false: on this platform the child is never in this program's job.
func OnTerminal() bool { return false }
