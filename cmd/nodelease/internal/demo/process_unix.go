//go:build unix

package demo

import "syscall"

// canFreeze reports whether this platform can stop a process and let it continue.
const canFreeze = true

func (p *process) freeze() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) thaw() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// terminate asks the process to end in good order.
func (p *process) terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }
