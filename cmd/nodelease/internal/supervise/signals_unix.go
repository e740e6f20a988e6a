//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

// lastSignal is the highest signal number on any Unix: Linux's SIGRTMAX.
const lastSignal = 64

// catchable returns every signal that a program can handle, except signals that this
// program was started to ignore (nohup), which stay ignored in the child. Signals that the
// Go runtime sends itself, and those about children, are left out.
func catchable() (all []os.Signal) {
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		switch n {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, 32, 33:
			continue
		}
		if !signal.Ignored(n) {
			all = append(all, n)
		}
	}
	return all
}

// Forwarded returns the signals to pass on to the child. On a terminal the child is in the
// same job as this program. The terminal then sends its signals to the child directly, and
// a stop (Ctrl-Z) stops this program too.
func Forwarded(terminal bool) <-chan os.Signal {
	var forward, catch []os.Signal
	for _, s := range catchable() {
		switch s {
		case syscall.SIGPIPE:
			catch = append(catch, s) // concerns only this program; the write returns an error
			continue
		case syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
			if terminal {
				continue
			}
		case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGCONT, syscall.SIGWINCH:
			if terminal {
				catch = append(catch, s)
				continue
			}
		}
		forward = append(forward, s)
	}
	if len(catch) > 0 {
		signal.Notify(make(chan os.Signal, 1), catch...)
	}
	c := make(chan os.Signal, 64)
	signal.Notify(c, forward...)
	return c
}
