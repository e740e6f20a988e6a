package demo

import (
	"os/exec"
	"syscall"
)

// isolate puts a process into its own group, so that Ctrl-C in the terminal reaches the
// director alone, which then asks the other processes to end. It also makes the kernel kill
// the process when the director dies, even if the process is frozen.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
