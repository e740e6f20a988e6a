package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"time"
)

// These are the exit codes of runs that do not end with the child's own code. For a program
// that cannot be started they are the same as a shell's. If signal n ended the child, the
// code is 128 + n.
const (
	CodeOwn      = 111 // an error of this package
	CodeCannot   = 126 // the program exists but cannot be run
	CodeNotFound = 127 // there is no such program
	codeSignal   = 128
)

// Spec describes the program to run.
type Spec struct {
	Args []string // program and arguments
	Env  []string // name=value
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
	// Left returns the time until the last known deadline. It is called again at each
	// Extend.
	Left func() time.Duration
}

// Look finds the program. If it fails, it returns the exit code for the reason.
func Look(program string) (path string, code int, err error) {
	path, err = exec.LookPath(program)
	if err != nil {
		return "", codeOf(err), fmt.Errorf("%q cannot be run: %w", program, unwrap(err))
	}
	return path, 0, nil
}

// codeOf returns the exit code for an error from starting a program.
func codeOf(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return CodeNotFound
	}
	return CodeCannot
}

// unwrap removes the program's name from an error, because the message already has it.
func unwrap(err error) error {
	if e := (*exec.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Forever is the value of Spec.Left for a program without a deadline.
func Forever() time.Duration { return 100 * 365 * 24 * time.Hour }
