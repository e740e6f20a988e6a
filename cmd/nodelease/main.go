// Command nodelease works with pools of node IDs in a DynamoDB table: it seeds
// them, lists who holds which number, frees what the dead left behind, and shows
// the whole protocol at work on this machine alone:
//
//	go run github.com/nodelease/nodelease/cmd/nodelease demo
//
// # Exit codes
//
//	0  ok
//	1  error
//	2  usage: a wrong flag, argument or value; nothing was done
//	3  pool exhausted: every number is held
//	4  lease lost: the number is someone else's
//
// exec passes its program's code through and uses 125 and up for its own.
//
// Results go to stdout, as text or with --json as one line of JSON; errors go to
// stderr and say what to do.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/demo"
	"github.com/nodelease/nodelease/pkg/lease"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run does what the arguments say and gives the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, unhook := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer unhook()
	context.AfterFunc(ctx, unhook) // a second signal ends the process as usual

	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintln(stderr, cmd.UsageString())
	}
	if err.Error() == "" {
		return exitCode(err) // a child has said all there was to say
	}
	fmt.Fprintf(stderr, "%s%s\n", demo.ErrorPrefix, strings.TrimPrefix(err.Error(), "lease: "))
	return exitCode(err)
}

// exitCode is the contract with scripts.
func exitCode(err error) int {
	var usage *usageError
	var own *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &usage):
		return 2
	case errors.Is(err, lease.ErrPoolExhausted):
		return 3
	case errors.Is(err, lease.ErrLost):
		return 4
	}
	return 1
}

// usageError is a wrong flag, argument or value: the usage is shown with it.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// noArgs refuses arguments; most commands have flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%q: %s takes no arguments", args[0], cmd.CommandPath())
	}
	return nil
}

// oneArg wants one argument and says what it is.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s takes one argument, %s; given are %d", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}
