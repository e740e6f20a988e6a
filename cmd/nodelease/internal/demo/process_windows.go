package demo

import (
	"os/exec"
	"syscall"
)

// isolate keeps Ctrl-C from reaching a process. When the director dies, the process sees
// the end of its stdin.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// canFreeze reports whether this platform can stop a process and let it continue.
const canFreeze = false

func (p *process) freeze() {}

func (p *process) thaw() {}

// terminate asks the process to end in good order by closing its stdin, since Windows has
// no SIGTERM.
func (p *process) terminate() { _ = p.stdin.Close() }
