package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardian is the process between the owner of the lease and the child.
type guardian struct {
	set      settings
	deadline boot
	alarm    *alarm
	child    *os.Process
	code     int  // the child's exit code
	ended    bool // the child has ended
	stopping bool // SIGTERM was sent to all processes
	stopped  bool // the guardian ended the child, and not because the owner died
	limit    boot // when SIGKILL follows, if stopping
	pause    time.Duration
}

// wake is the pause between the first two attempts to kill all descendants. The attempts
// are repeated, because the kernel reports the end of children, but not of other
// descendants. The pause doubles, up to patience, because some processes cannot be killed,
// at present or ever.
const wake = 5 * time.Millisecond

// Guard runs the guardian. It returns the child's exit code when the child and everything
// that it started have ended. It reports to the owner whether it had to end the child.
func Guard(path string, args []string) (code int, err error) {
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	// If a signal is sent to all processes, such as those of a service, the owner passes it
	// on to the child, so the guardian drops its own copy. In the child these signals have
	// their default action again, unless they were ignored from the start.
	signal.Notify(make(chan os.Signal, 1), catchable()...)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return CodeOwn, os.NewSyscallError("prctl", err)
	}
	syscall.CloseOnExec(ordersFile)
	syscall.CloseOnExec(reportFile)
	in := json.NewDecoder(os.NewFile(ordersFile, "orders"))
	g := &guardian{pause: wake}
	if err := in.Decode(&g.set); err != nil {
		return CodeOwn, fmt.Errorf("%s is only started by exec: %w", GuardianCommand, err)
	}
	g.deadline = g.set.Deadline
	if g.alarm, err = newAlarm(); err != nil {
		return CodeOwn, err
	}
	defer g.alarm.close()
	if g.now() >= g.deadline { // the guardian or the machine was frozen
		g.report(true)
		return CodeOwn, nil
	}
	g.child, err = os.StartProcess(path, args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pgid: g.set.Group, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return codeOf(err), fmt.Errorf("%q cannot be run: %w", path, unwrap(err))
	}
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	if err := g.watch(orders, reap()); err != nil {
		return CodeOwn, err // the child dies with the guardian
	}
	g.report(g.stopped)
	return g.code, nil
}

// report tells the owner, which may be gone, whether the child was ended because of the
// lease.
func (g *guardian) report(stopped bool) {
	_ = json.NewEncoder(os.NewFile(reportFile, "report")).Encode(report{Stopped: stopped})
}

// watch is the guardian's main loop. Each iteration reads the clock, whatever woke the
// loop.
func (g *guardian) watch(orders <-chan order, dead <-chan death) error {
	var tick <-chan time.Time
	for {
		now := g.now()
		if !g.stopping && now >= g.warning() {
			g.stopped = !g.ended
			g.stop()
		}
		if g.stopping && now >= g.limit {
			g.kill()
			tick = time.After(g.pause)
			g.pause = min(2*g.pause, patience)
		}
		next := g.warning()
		if g.stopping {
			next = g.limit
		}
		if tick == nil {
			if err := g.alarm.set(next); err != nil {
				return err
			}
		}
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil
			}
			g.obey(o, !ok)
		case d, ok := <-dead:
			if !ok {
				return nil
			}
			if d.pid == g.child.Pid {
				g.ended, g.code = true, d.code
				g.stop() // ends the processes that the child has left, if any
			}
		case <-g.alarm.C:
		case <-tick:
		}
	}
}

// now returns the time or, if the clock cannot be read, the deadline, which is the safe
// choice.
func (g *guardian) now() boot {
	now, err := bootNow()
	if err != nil {
		return g.deadline
	}
	return now
}

// warning returns the time at which SIGTERM is due.
func (g *guardian) warning() boot { return g.deadline.add(-time.Duration(g.set.GraceNS)) }

// obey follows the owner's orders, or reacts to its death.
func (g *guardian) obey(o order, gone bool) {
	switch {
	case gone:
		g.stop()
	case o.Stop:
		g.stopped = g.stopped || !g.ended
		g.stop()
		if o.Now {
			g.limit = min(g.limit, g.now())
		}
	case o.Signal != 0:
		_ = g.child.Signal(o.Signal) // fails if the child has ended
	case !g.stopping:
		// Once SIGTERM has been sent because of a deadline, a late renewal no longer
		// extends the deadline.
		g.deadline = max(g.deadline, o.Deadline)
	}
}

// stop asks all processes to end, and wakes frozen ones so that they receive SIGTERM. The
// processes then have the grace period, but never longer than until the deadline.
func (g *guardian) stop() {
	if g.stopping {
		return
	}
	g.stopping = true
	g.limit = min(g.now().add(time.Duration(g.set.GraceNS)), g.deadline)
	signalBelow(os.Getpid(), syscall.SIGTERM)
	signalBelow(os.Getpid(), syscall.SIGCONT)
}

// kill kills all processes: first the child's group, which is a single step that cannot
// miss a process, then the processes that have left the group.
func (g *guardian) kill() {
	if !g.ended {
		if g.set.Group == 0 {
			_ = syscall.Kill(-g.child.Pid, syscall.SIGKILL)
		}
		_ = g.child.Kill()
	}
	signalBelow(os.Getpid(), syscall.SIGKILL)
}

// death is a process that has ended.
type death struct {
	pid, code int
}

// reap waits for the child and the orphans, and sends each death. It closes the channel
// when the guardian has no children, which means that no process is left, because the
// kernel makes every orphan a child of the guardian.
func reap() <-chan death {
	dead := make(chan death)
	go func() {
		defer close(dead)
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, 0, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return
			}
			code := status.ExitStatus()
			if status.Signaled() {
				code = codeSignal + int(status.Signal())
			}
			dead <- death{pid, code}
		}
	}()
	return dead
}
