package main

import (
	"errors"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Exit codes, the same in every command.
const (
	codeDone      = 0
	codeError     = 1
	codeUsage     = 2
	codeExhausted = 3
	codeUnseeded  = 4
	codeAccess    = 5
	codeNoAnswer  = 6
	codeLost      = 7
	// codeExec is added to these codes by exec, because its program has exit codes of its
	// own.
	codeExec = 110
)

// exitError ends the program with an exit code of its own. If it wraps no error, nothing
// is printed, because the child has already printed its errors.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitCode returns the exit code for err. Scripts rely on these codes.
func (g *globals) exitCode(err error) int {
	var usage *usageError
	var own *exitError
	var silence *silenceError
	switch {
	case err == nil:
		return codeDone
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &usage):
		return codeUsage
	case errors.Is(err, lease.ErrLost):
		return codeLost
	case errors.As(err, &silence):
		return codeNoAnswer
	case errors.Is(err, lease.ErrPoolExhausted):
		return codeExhausted
	case errors.Is(err, lease.ErrPoolNotSeeded):
		return codeUnseeded
	case errors.Is(err, lease.ErrAccess):
		return codeAccess
	case g.answers.silent():
		return codeNoAnswer
	}
	return codeError
}
