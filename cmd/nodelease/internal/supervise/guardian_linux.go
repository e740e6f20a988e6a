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
	code     int  // how the child ended
	ended    bool // the child has
	stopping bool // SIGTERM was sent, to all
	stopped  bool // the child was ended by us, and not for the owner's death
	limit    boot // SIGKILL follows, if stopping
	pause    time.Duration
}

// wake is how often, at first, the dying are counted: the kernel reports only
// children. Some cannot be killed, for now or at all, so it becomes rarer.
const wake = 5 * time.Millisecond

// Guard is the guardian. It returns when the child and all that it started have
// ended, with the child's exit code, and reports whether it had to end the child.
func Guard(path string, args []string) (code int, err error) {
	// The kernel kills the child with the thread that started it.
	runtime.LockOSThread()
	// A signal that is sent to the whole program, or to all of a service, is the owner's to
	// send on. A signal that is not read is dropped; it is the default of the
	// child again, but for one that was ignored from the start.
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
	if g.now() >= g.deadline { // we, or the machine, were frozen
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
		return CodeOwn, err // the child dies with us
	}
	g.report(g.stopped)
	return g.code, nil
}

// report sends the owner, which may be gone, whether the child was ended because of the
// lease.
func (g *guardian) report(stopped bool) {
	_ = json.NewEncoder(os.NewFile(reportFile, "report")).Encode(report{Stopped: stopped})
}

// watch is the guardian's main loop. Each turn reads the clock, whatever woke it.
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
				g.stop() // its remaining processes, if any
			}
		case <-g.alarm.C:
		case <-tick:
		}
	}
}

// now is the clock, or the deadline if it cannot be read: the safe side.
func (g *guardian) now() boot {
	now, err := bootNow()
	if err != nil {
		return g.deadline
	}
	return now
}

// warning is when SIGTERM is due.
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
		_ = g.child.Signal(o.Signal) // it may have ended
	case !g.stopping:
		// Once SIGTERM was sent for a deadline, a late renewal does not change what
		// the child was told.
		g.deadline = max(g.deadline, o.Deadline)
	}
}

// stop asks all to end, and wakes those who are frozen so that they can hear it.
// They have the grace for it, and never longer than until the deadline.
func (g *guardian) stop() {
	if g.stopping {
		return
	}
	g.stopping = true
	g.limit = min(g.now().add(time.Duration(g.set.GraceNS)), g.deadline)
	signalBelow(os.Getpid(), syscall.SIGTERM)
	signalBelow(os.Getpid(), syscall.SIGCONT)
}

// kill ends all at once. The group comes first: that is one step, in which no process
// can be missed; then those who have left it.
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

// reap buries the child and the orphans. The channel is closed when none is left:
// every survivor is re-parented to us, so no children means that none is left.
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
