package supervise

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// terminate is kill: there is no SIGTERM here.
func terminate(cmd *exec.Cmd) { kill(cmd) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }

// Forwarded returns the signals to pass on to the child. Ctrl-C
// reaches the child by itself; it is caught so that we outlive it.
func Forwarded(bool) <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	return nil
}
