package demo

import (
	"os/exec"
	"syscall"
)

// isolate keeps Ctrl-C from reaching a process; when the director dies, it sees
// the end of its stdin.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// canFreeze reports whether this platform can stop a process and let it continue.
const canFreeze = false

func (p *process) freeze() {}

func (p *process) thaw() {}

// terminate asks it to end in good order; there is no SIGTERM here.
func (p *process) terminate() { _ = p.stdin.Close() }
