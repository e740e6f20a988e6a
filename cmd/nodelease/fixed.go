package main

import (
	"log/slog"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/supervise"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
)

// byOrdinal is the value of --fixed that takes the ordinal of a StatefulSet's pod as the
// node ID.
const byOrdinal = "statefulset"

func registerFixed(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "fixed", "", "use this `node ID` without a lease, or statefulset for the ordinal in the host name: nothing checks that no other process has it; needs --layout")
	complete(cmd, "fixed", byOrdinal)
}

// fixedNode returns the node ID of --fixed. It is never a fallback, so it refuses any
// flag that a lease would need.
func fixedNode(cmd *cobra.Command, g *globals, value, layout string, log slog.Handler) (*leasefixed.Node, error) {
	var wrong string
	leased := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(terms).register(leased)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if leased.Lookup(f.Name) != nil || slices.Contains([]string{"table", "pool", "endpoint", "grace", "deadline-file", "on-demand"}, f.Name) {
			wrong = f.Name
		}
	})
	if wrong != "" {
		return nil, usagef("--fixed and --%s contradict each other: a fixed node ID has no lease; omit one of them", wrong)
	}
	if layout == "" {
		return nil, usagef("--fixed needs --layout: there is no pool to take it from, and all processes whose IDs are used together need the same one")
	}
	l, err := parseLayout(layout)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(slog.New(log))
	var node *leasefixed.Node
	if value == byOrdinal {
		node, err = leasefixed.StatefulSet(l)
	} else {
		n, bad := strconv.Atoi(value)
		if bad != nil {
			return nil, usagef("--fixed %s: use a node ID, 0 or more, or %s", strconv.Quote(value), byOrdinal)
		}
		node, err = leasefixed.New(n, l)
	}
	if err != nil {
		return nil, &usageError{err}
	}
	g.answers.ready() // DynamoDB is not used
	return node, nil
}

// execFixed runs a program with a fixed node ID, which has no deadline.
func execFixed(cmd *cobra.Command, g *globals, value, layout string, args []string) error {
	path, code, err := supervise.Look(args[0])
	if err != nil {
		return &exitError{code, err}
	}
	signals := supervise.Forwarded(supervise.OnTerminal())
	node, err := fixedNode(cmd, g, value, layout, newLog(cmd.ErrOrStderr(), slog.LevelWarn))
	if err != nil {
		return err
	}
	defer node.Close()
	l, err := node.Lease()
	if err != nil {
		return err
	}
	child, err := supervise.Start(path, supervise.Spec{Args: args, Env: environment(l, ""), Left: supervise.Forever})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, _, err = child.Wait()
	}()
	follow(child, node, signals, nil, ended)
	if code == 0 && err == nil {
		return nil
	}
	return &exitError{code, err}
}
