package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/supervise"
	"github.com/nodelease/nodelease/pkg/lease"
)

// exitError is an end with an exit code of its own. Without an error in it there
// is nothing to print: the child has said what there was to say.
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

func newExec(g *globals) *cobra.Command {
	var t terms
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "exec [flags] -- program [argument]...",
		Short: "Run a program that has a number for as long as it runs",
		Long: "Lease a number, run a program with it, and give the number back when the program has ended. The program finds\n" +
			"the number in its environment:\n\n" +
			"  NODELEASE_NODE_ID   the number\n" +
			"  NODELEASE_VERSION   the fencing token: it grows each time that the number changes hands\n" +
			"  NODELEASE_POOL      the pool\n\n" +
			"Signals are passed on to the program. If the lease cannot be renewed, the program is ended before anybody else may\n" +
			"have the number: SIGTERM --grace before the deadline, SIGKILL at it. What the program has started and left behind\n" +
			"is ended with it, also when this command itself is killed.\n\n" +
			"Exit codes: the program's own; 128+n when signal n ended it; 127 not found; 126 cannot be run; 125 no lease, or the\n" +
			"program was ended because the lease was.",
		Example: "  nodelease exec --table leases --pool brokers -- ./broker --port 9092\n" +
			"  nodelease exec --table leases --pool brokers -- sh -c 'exec ./broker --id $NODELEASE_NODE_ID'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &exitError{supervise.CodeOwn, usagef("which program? Give it after --")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := runExec(cmd, g, t, grace, args)
			if e := (*exitError)(nil); err == nil || errors.As(err, &e) {
				return err
			}
			return &exitError{supervise.CodeOwn, err}
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &exitError{supervise.CodeOwn, &usageError{err}}
	})
	f := cmd.Flags()
	f.SetInterspersed(false) // what comes after the program's name is the program's
	t.register(f)
	f.DurationVar(&grace, "grace", 0, "time between SIGTERM and SIGKILL (default: a fifth of what is between the last renewal and the deadline)")
	return cmd
}

// runExec leases a number and lives as long as the program.
func runExec(cmd *cobra.Command, g *globals, t terms, grace time.Duration, args []string) error {
	path, code, err := supervise.Look(args[0])
	if err != nil {
		return &exitError{code, err}
	}
	cfg, err := t.config(cmd.Context(), g)
	if err != nil {
		return err
	}
	if grace, err = t.grace(grace); err != nil {
		return err
	}
	signals := supervise.Forwarded(supervise.OnTerminal())
	renewed := make(chan struct{}, 1)
	cfg.OnExpiry = lease.Stop
	cfg.OnEvent = func(e lease.Event) {
		if e.Kind == lease.EventRenewed {
			select {
			case renewed <- struct{}{}:
			default:
			}
		}
	}
	cfg.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	starting, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	agent, err := lease.Start(starting, cfg)
	if err != nil {
		if n, ok := interrupted(cmd.Context(), signals); ok {
			return &exitError{code: 128 + n, err: err}
		}
		return err
	}
	l, err := agent.Lease()
	if err != nil {
		return errors.Join(err, agent.Close())
	}
	if supervise.Weaker != "" {
		cfg.Logger.Warn(supervise.Weaker)
	}
	child, err := supervise.Start(path, supervise.Spec{Args: args, Env: environment(l), Grace: grace, Left: agent.Left})
	if err != nil {
		return errors.Join(err, agent.Close())
	}
	var stopped bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, stopped, err = child.Wait()
	}()
	follow(child, agent, signals, renewed, ended)
	if stopped {
		code = supervise.CodeOwn
		err = fmt.Errorf("%s was ended, since node %d of pool %s could not be kept", args[0], l.NodeID, l.Pool)
		if why := agent.Err(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	// Only now nobody uses the number any more. That giving it back was not
	// confirmed is in the log, and does not change how the program has ended.
	_ = agent.Close()
	if code == 0 && err == nil {
		return nil
	}
	return &exitError{code, err}
}

// follow passes on what happens until the child has ended.
func follow(child *supervise.Child, agent *lease.Agent, signals <-chan os.Signal, renewed, ended <-chan struct{}) {
	lost := agent.Done()
	for {
		select {
		case <-ended:
			return
		case s := <-signals:
			child.Signal(s)
		case <-renewed:
			if child.Extend() != nil {
				child.Stop()
			}
		case <-lost:
			lost = nil
			child.Stop()
		}
	}
}

// interrupted tells which signal ended the start.
func interrupted(ctx context.Context, signals <-chan os.Signal) (n int, ok bool) {
	if ctx.Err() == nil {
		return 0, false
	}
	for {
		select {
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok && (n == syscall.SIGTERM || n == syscall.SIGINT) {
				return int(n), true
			}
		default:
			return 0, false
		}
	}
}

// environment is this one's and the lease, in place of any that was there.
func environment(l lease.Lease) []string {
	set := map[string]string{
		"NODELEASE_NODE_ID": strconv.Itoa(l.NodeID),
		"NODELEASE_VERSION": strconv.FormatInt(l.Version, 10),
		"NODELEASE_POOL":    l.Pool,
	}
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); set[name] == "" {
			env = append(env, kv)
		}
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}

// newExecGuardian is what exec starts between itself and the program.
func newExecGuardian() *cobra.Command {
	return &cobra.Command{
		Use:                supervise.GuardianCommand,
		Short:              "What watches over the program that exec runs",
		Hidden:             true,
		DisableFlagParsing: true, // all of them are the program's
		Args:               cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			code, err := supervise.Guard(args[0], args[1:])
			if code == 0 && err == nil {
				return nil
			}
			return &exitError{code, err}
		},
	}
}
