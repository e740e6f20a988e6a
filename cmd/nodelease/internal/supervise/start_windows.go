package supervise

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// terminate kills the child, because Windows has no SIGTERM.
func terminate(cmd *exec.Cmd) { kill(cmd) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }

// Forwarded returns no signals to pass on: Ctrl-C reaches the child directly. This program
// catches it, so that it outlives the child.
func Forwarded(bool) <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	return nil
}
