//go:build unix && !linux

package demo

import (
	"os/exec"
	"syscall"
)

// isolate puts a process into its own group, so that Ctrl-C in the terminal reaches the
// director alone. When the director dies, the processes see the end of their stdin; the
// kernel wakes frozen processes first.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
