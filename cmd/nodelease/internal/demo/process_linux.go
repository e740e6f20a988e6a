package demo

import (
	"os/exec"
	"syscall"
)

// isolate puts a process into its own group, so that Ctrl-C in the terminal reaches the
// director alone, which then ends the others in good order; and has the kernel kill it
// when the director dies, frozen or not.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
