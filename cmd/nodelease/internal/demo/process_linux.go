package demo

import (
	"os/exec"
	"syscall"
)

// isolate gives a process a group of its own, so that Ctrl-C in the terminal
// reaches the director alone, which then ends the others in good order; and has
// the kernel kill it when the director dies, frozen or not.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
