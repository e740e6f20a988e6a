package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// releasedNode is the result of release.
type releasedNode struct {
	Released bool       `json:"released"` // false: it was free already
	Node     listedNode `json:"node"`
}

func newRelease(g *globals) *cobra.Command {
	var version int64
	var yes bool
	cmd := &cobra.Command{
		Use:   "release NODE --version V",
		Short: "Take a number from its holder",
		Long: "Free a number by your word, whether its lease has expired or not, if it still has the version that you saw.\n\n" +
			"IDs stay unique: what is reserved stays reserved, and the next holder waits for it and begins behind it. But the old holder\n" +
			"learns of it only at its next renewal. What it does with its number besides IDs is exclusive until then only where the\n" +
			"version is checked. Expired numbers need no release: claimants take them.",
		Example: "  nodelease inspect 7 --table leases --pool orders      shows the version\n" +
			"  nodelease release 7 --version 12 --table leases --pool orders\n" +
			"  nodelease release 7 --version 12 --yes --json --table leases --pool orders",
		Args: oneArg("a node ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("version") {
				return usagef("which version? Use --version with the one that nodelease inspect %s shows, so that nobody else's lease is freed", args[0])
			}
			l, err := g.node(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			done := releasedNode{Node: listedNode{Lease: l}}
			if l.Holder != "" && l.Version == version {
				if err := confirm(cmd, yes, whatReleaseMeans(l, time.Now())+"Release it?"); err != nil {
					return err
				}
			}
			if l.Holder != "" || l.Version != version { // what is stale is refused, with who has it
				store, err := g.store(cmd.Context())
				if err != nil {
					return err
				}
				if done.Node.Lease, err = leasepool.Open(store, g.pool).ForceRelease(cmd.Context(), l.NodeID, version); err != nil {
					return err
				}
				done.Released = true
			}
			now := time.Now()
			done.Node.State = done.Node.Lease.State(now)
			if g.json {
				return writeJSON(cmd.OutOrStdout(), done)
			}
			if !done.Released {
				return say(cmd.OutOrStdout(), fmt.Sprintf("node %d is free already; nothing was done\n", l.NodeID))
			}
			return say(cmd.OutOrStdout(), fmt.Sprintf("node %d was released; it can be claimed when what was reserved has passed: %s\n", l.NodeID, moment(done.Node.ReservedUntil, now)))
		},
	}
	cmd.Flags().Int64Var(&version, "version", 0, "the `version` of the lease that you mean")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// whatReleaseMeans says whose number it is and what a release does to it.
func whatReleaseMeans(l lease.Lease, now time.Time) string {
	return inspected(l, now) +
		fmt.Sprintf("IDs stay unique: the next holder begins behind %s.\n", moment(l.ReservedUntil, now)) +
		fmt.Sprintf("Until its next renewal %s still believes that it holds the number: anything but IDs is exclusive only where version %d is checked.\n", l.Task, l.Version)
}

// confirm asks on stderr, unless the user has said yes already.
func confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if err := say(cmd.ErrOrStderr(), question+" [y/N] "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed, nothing was done: answer y, or use --yes")
}
