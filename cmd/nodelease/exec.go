package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/supervise"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newExec(g *globals) *cobra.Command {
	var t terms
	var grace time.Duration
	var file, fixed, layout string
	var short bool
	cmd := &cobra.Command{
		Use:   "exec [flags] -- program [argument]...",
		Short: "Run a program that has a node ID for as long as it runs",
		Long: "Lease a node ID, run a program with it, and release it when the program has ended. The program finds it in its\n" +
			"environment:\n\n" +
			"  NODELEASE_NODE_ID        the node ID\n" +
			"  NODELEASE_VERSION        the fencing token: it grows each time the node ID changes hands\n" +
			"  NODELEASE_POOL           the pool\n" +
			"  NODELEASE_DEADLINE_FILE  with --deadline-file: the file with the lease's state and deadline\n\n" +
			"Signals are passed on to the program. If the lease cannot be renewed, the program is ended before another process can\n" +
			"claim the node ID: SIGTERM --grace before the deadline, SIGKILL at the deadline. Processes that the program has started\n" +
			"and left behind are ended with it, even when this command itself is killed.\n\n" +
			"--on-demand is for programs that live for seconds or minutes (batch jobs, pipeline steps). There are no\n" +
			"heartbeats: the lease is 5m long unless --ttl is set, and is renewed when less than a third of it is left. A program\n" +
			"that ends before that costs a claim and a release.\n\n" +
			"Exit codes: the program's own; 128+n when signal n ended it; 127 not found; 126 cannot be run; for failures of exec\n" +
			"itself 112 usage, 113 pool exhausted, 114 not seeded, 115 no access, 116 no answer, 117 the lease was lost and the\n" +
			"program ended, 111 any other.",
		Example: "  nodelease exec --table leases --pool brokers -- ./broker --port 9092\n" +
			"  nodelease exec --table leases --pool brokers --name broker-a --metadata zone=eu-west-1a --wait 5m -- ./broker\n" +
			"  nodelease exec --table leases --pool jobs --on-demand -- ./job\n" +
			"  nodelease exec --table leases --pool brokers -- sh -c 'exec ./broker --id $NODELEASE_NODE_ID'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which program? Name it after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if fixed != "" {
				return execFixed(cmd, g, fixed, layout, args)
			}
			if layout != "" {
				return usagef("--layout is for --fixed: the layout of leased node IDs is the pool's")
			}
			if file == "" {
				file = os.Getenv(deadlineVariable)
				// Invariant (S2): a deadline file has one writer. The variable may come from an exec that has
				// started this one, whose program would take the deadline of this lease for its own.
				if version := os.Getenv("NODELEASE_VERSION"); file != "" && version != "" {
					return usagef("%s is %s, the file of the lease that this command itself runs with (version %s): give the program a file of its own with --deadline-file, or unset the variable",
						deadlineVariable, text.Line(file), text.Line(version))
				}
			}
			return runExec(cmd, g, t, short, grace, file, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // arguments after the program's name belong to the program
	t.register(f)
	f.BoolVar(&short, "on-demand", false, "no heartbeats: renew when less than a third of the lease is left; --ttl is 5m by default")
	f.DurationVar(&grace, "grace", 0, "time between SIGTERM and SIGKILL (default: a fifth of the time from the last renewal to the deadline; with --on-demand at most half)")
	f.StringVar(&file, "deadline-file", "", "`file` for the lease's state and deadline, replaced at each change (or $NODELEASE_DEADLINE_FILE)")
	f.StringVar(&layout, "layout", "", "with --fixed, the `layout` of the IDs that the program makes: a name or T/N/S")
	registerFixed(cmd, &fixed)
	complete(cmd, "layout", leasepool.LayoutNames()...)
	completeFunc(cmd, "deadline-file", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	})
	// The first argument is a command; the others are files.
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return cmd
}

// runExec leases a node ID and runs the program. It returns when the program has ended.
func runExec(cmd *cobra.Command, g *globals, t terms, short bool, grace time.Duration, file string, args []string) error {
	path, code, err := supervise.Look(args[0])
	if err != nil {
		return &exitError{code, err}
	}
	if short {
		if grace, err = t.forOnDemand(cmd, grace); err != nil {
			return err
		}
	}
	cfg, err := t.config(cmd.Context(), g)
	if err != nil {
		return err
	}
	if !short {
		if grace, err = t.grace(grace); err != nil {
			return err
		}
		cfg.OnExpiry = lease.Stop
	}
	deadline, err := newDeadlineFile(file)
	if err != nil {
		return err
	}
	defer deadline.close()
	signals := supervise.Forwarded(supervise.OnTerminal())
	renewed := make(chan struct{}, 1)
	log := newLog(cmd.ErrOrStderr(), slog.LevelWarn)
	cfg.Logger = slog.New(log)
	cfg.OnEvent = func(e lease.Event) {
		log.heard(e.Kind)
		if e.Kind == lease.EventRenewed {
			select {
			case renewed <- struct{}{}:
			default:
			}
		}
		deadline.changed(e)
	}
	starting, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	started := hangup(cancel)
	agent, err := startKeeper(starting, cfg, short)
	if n := started(); n != 0 {
		if err == nil {
			err = agent.Close()
		}
		return &exitError{code: 128 + int(n), err: errors.Join(fmt.Errorf("%w before the program was started: %v", context.Canceled, n), err)}
	}
	if err != nil {
		if n, ok := interrupted(cmd.Context(), signals); ok {
			return &exitError{code: 128 + n, err: err}
		}
		return err
	}
	g.answers.ready()
	l, err := agent.Lease()
	if err != nil {
		return errors.Join(err, agent.Close())
	}
	// The file is written before the program starts, so that the program finds it.
	if err := deadline.follow(agent, l, cfg.Logger); err != nil {
		return errors.Join(err, agent.Close())
	}
	if supervise.Weaker != "" {
		cfg.Logger.Warn(supervise.Weaker)
	}
	child, err := supervise.Start(path, supervise.Spec{Args: args, Env: environment(l, deadline.path), Grace: grace, Left: agent.Left})
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
		code = codeExec + codeLost
		err = fmt.Errorf("%s was ended, since its lease on node %d of pool %s was lost or not renewed in time", args[0], l.NodeID, l.Pool)
		if why := agent.Err(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	// The node ID is out of use only now. A release that was not confirmed is logged, and
	// does not change the program's exit code.
	_ = agent.Close()
	if code == 0 && err == nil {
		return nil
	}
	return &exitError{code, err}
}

// startKeeper leases a node ID.
func startKeeper(ctx context.Context, cfg lease.Config, short bool) (keeper, error) {
	if short {
		return startOnDemand(ctx, cfg)
	}
	return lease.Start(ctx, cfg)
}

// follow forwards signals and events to the child until the child has ended.
func follow(child *supervise.Child, node interface{ Done() <-chan struct{} }, signals <-chan os.Signal, renewed, ended <-chan struct{}) {
	lost := node.Done()
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
			if o, ok := node.(*onDemand); ok && o.overdue() { // no time for a grace period
				child.End()
				continue
			}
			child.Stop()
		}
	}
}

// hangup ends the start when the user's terminal closes or its user gives up: SIGINT and
// SIGTERM are not the only signals that mean that. The function that it returns ends the
// watch, and returns the signal that came, or 0.
//
// Invariant: no program is started for a user who is gone, however long the wait was.
func hangup(end context.CancelFunc) (started func() syscall.Signal) {
	came, done, got := make(chan os.Signal, 1), make(chan struct{}), make(chan syscall.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // nohup
			signal.Notify(came, s)
		}
	}
	go func() {
		var s os.Signal
		select {
		case s = <-came:
		case <-done:
			select { // both may have happened
			case s = <-came:
			default:
			}
		}
		n, _ := s.(syscall.Signal)
		if n != 0 {
			end()
		}
		got <- n
	}()
	return func() syscall.Signal {
		signal.Stop(came)
		close(done)
		return <-got
	}
}

// interrupted returns the number of the signal that interrupted the start, if one did.
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

// environment returns this process's environment with the lease added. It replaces the
// variables of any earlier lease.
//
// Invariant: a program is told of no deadline file but that of its own lease.
func environment(l lease.Lease, deadlineFile string) []string {
	set := map[string]string{
		"NODELEASE_NODE_ID": strconv.Itoa(l.NodeID),
		"NODELEASE_VERSION": strconv.FormatInt(l.Version, 10),
		"NODELEASE_POOL":    l.Pool,
	}
	if deadlineFile != "" {
		set[deadlineVariable] = deadlineFile
	}
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if _, ours := set[name]; !ours && name != deadlineVariable {
			env = append(env, kv)
		}
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}

// newExecGuardian returns the command that exec starts between itself and the program.
func newExecGuardian() *cobra.Command {
	return &cobra.Command{
		Use:                supervise.GuardianCommand,
		Short:              "Watch over the program that exec runs",
		Hidden:             true,
		DisableFlagParsing: true, // all flags are the program's
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
