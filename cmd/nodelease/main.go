// Command nodelease works with pools of node IDs in a DynamoDB table: it seeds
// them, lists who holds which node ID, frees the node IDs of dead processes, and shows
// the whole protocol at work on one machine:
//
//	go run github.com/nodelease/nodelease/cmd/nodelease demo
//
// # Exit codes
//
//	0  done
//	1  any other error; doctor: there is a problem
//	2  usage: a wrong command, flag, argument or value; nothing was done
//	3  pool exhausted: every node ID is held
//	4  pool not seeded
//	5  no access: no credentials, no Region, or no permission
//	6  no answer from DynamoDB in time
//	7  lease lost: the node ID is someone else's
//
// exec exits with its program's code. For failures of exec itself, 110 is added to the codes
// above; 126 and 127 have their usual meaning in shells.
//
// Results go to stdout, as text or with --json as one line of JSON; errors go to
// stderr and say what to do.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

func main() {
	slog.SetDefault(slog.New(newLog(os.Stderr, slog.LevelWarn))) // for code without a logger of its own
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes the arguments' command and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, unhook := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer unhook()
	context.AfterFunc(ctx, unhook) // a second signal ends the process as usual

	g := &globals{}
	root := newRootWith(g)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	g.answers.ready()
	err = g.answers.explain(err)
	if err == nil {
		return codeDone
	}
	code := g.exitCode(err)
	if own := (*exitError)(nil); cmd.Name() == "exec" && !errors.As(err, &own) {
		code += codeExec
	}
	if err.Error() != "" { // otherwise the child has already printed its error
		see := ""
		if usage := (*usageError)(nil); errors.As(err, &usage) {
			see = "; see " + cmd.CommandPath() + " --help"
			if strings.HasSuffix(err.Error(), "?") {
				see = " See " + cmd.CommandPath() + " --help"
			}
		}
		_ = say(stderr, text.Sprintf("%s\n", folded(stderr, text.Sprintf("nodelease: %s%s", g.message(err), text.Trusted(see)), 2)))
	}
	return code
}

// forShells rewrites advice for programmers as advice for somebody at a shell.
var forShells = strings.NewReplacer("(Config.Wait, --wait)", "(--wait)", "use WithLayout with", "use a --layout with a node part of", "check NODELEASE_TABLE", "check --table",
	"what pool.GrantLease grants (", "the agent's policy in docs/iam.md (")

// plain returns an error's text on one line, without the names of Nodelease's packages.
func plain(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(line, "lease: "), "snowflake: ")
	}
	return text.Cut(forShells.Replace(strings.Join(lines, "; ")), text.MaxError)
}

// message returns the sanitized text of an error. The commands that the text suggests
// repeat the given flags.
func (g *globals) message(err error) text.Safe {
	if errors.Is(err, lease.ErrPoolNotSeeded) && g.pool != "" {
		return text.Sprintf("pool %s of table %s is not seeded: check --pool, or seed it: %s", g.pool, g.table, command(g.again("seed --size 1024")))
	}
	said := plain(err)
	if g.table != "" { // a pool without a table cannot be resized
		said = strings.NewReplacer(
			"resize the pool, or wait for it (--wait)", "wait for one with --wait 5m, or make the pool larger: "+g.again("resize --size N"),
			": resize it, or name another pool", ": resize it, "+g.again("resize --size N")+", or name another pool",
		).Replace(said)
	}
	return text.Trusted(said)
}

// usageError reports a wrong command, flag, argument or value. It is returned before the
// command has done anything.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// noArgs refuses arguments, since most commands have flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%q: %s takes no arguments", args[0], cmd.CommandPath())
	}
	return nil
}

// oneArg requires one argument, and names it if it is missing.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s takes one argument, %s; got %d", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}
