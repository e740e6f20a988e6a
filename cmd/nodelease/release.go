package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// releasedNode is the result of release.
type releasedNode struct {
	Released bool       `json:"released"` // false: already free, or a dry run
	Node     listedNode `json:"node"`
}

func newRelease(g *globals) *cobra.Command {
	var version int64
	var task string
	var t taking
	cmd := &cobra.Command{
		Use:   "release {NODE --version V | --task TEXT}",
		Short: "Take a node ID from its holder",
		Long: "Free a node ID, whether its lease has expired or not, if it still has the version that you saw. --task chooses the node\n" +
			"ID that a task holds, by the task's name or a part of it that no other holder's name contains.\n\n" +
			"IDs stay unique: reserved milliseconds stay reserved, and the next holder waits until they have passed. But the old\n" +
			"holder notices only at its next renewal. Until then, other uses of the node ID are exclusive only where\n" +
			"the version is checked. Expired node IDs need no release: claimants take them.",
		Example: "  nodelease inspect 7 --table leases --pool orders      shows the version\n" +
			"  nodelease release 7 --version 12 --table leases --pool orders\n" +
			"  nodelease release --task 3f0a1c --table leases --pool orders --dry-run\n" +
			"  nodelease release 7 --version 12 --yes --json --table leases --pool orders",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("task") && (len(args) > 0 || cmd.Flags().Changed("version")):
				return usagef("--task %s names the node ID: omit the argument and --version", task)
			case cmd.Flags().Changed("task") && task == "":
				return usagef("--task needs a name or a part of one")
			case cmd.Flags().Changed("task"):
				return nil
			case len(args) != 1:
				return usagef("which node ID? Name it together with --version, or its holder with --task")
			case !cmd.Flags().Changed("version"):
				return usagef("which version? Use --version with the one that this command shows, so that no newer lease is freed: %s", g.again("inspect "+shellWord(args[0])))
			case version < 0:
				return usagef("--version %d: versions are not negative; use the one that this command shows: %s", version, g.again("inspect "+shellWord(args[0])))
			}
			return nil
		},
		ValidArgsFunction: g.completeNodes(),
		RunE: func(cmd *cobra.Command, args []string) error {
			var l lease.Lease
			var err error
			if task != "" {
				if l, err = g.heldBy(cmd.Context(), task); err != nil {
					return err
				}
				version = l.Version
			} else if l, err = g.node(cmd.Context(), args[0]); err != nil {
				return err
			}
			return release1(cmd, g, l, version, t)
		},
	}
	cmd.Flags().Int64Var(&version, "version", 0, "the lease is freed only if it has this `version`")
	cmd.Flags().StringVar(&task, "task", "", "release the node ID of the task with this `name` or part of a name")
	t.register(cmd)
	return cmd
}

// release1 shows what a release of l means, and then frees l if l still has the given
// version.
func release1(cmd *cobra.Command, g *globals, l lease.Lease, version int64, t taking) error {
	// Invariant: a release is sent only for the holder that was shown. With another version,
	// nothing is sent, because a process may claim the node ID with that version meanwhile.
	if l.Version != version {
		return fmt.Errorf("lease: node %d of pool %q has version %d by now, not %d: look again whose it is before releasing it", l.NodeID, g.pool, l.Version, version)
	}
	done := releasedNode{Node: listedNode{Lease: l}}
	held := l.Holder != ""
	if held && t.dry && !g.json {
		return say(cmd.OutOrStdout(), text.Sprintf("%sA dry run: nothing was done.\n", whatReleaseMeans(cmd.OutOrStdout(), l, time.Now())))
	}
	if held && !t.dry {
		if err := t.confirm(cmd, whatReleaseMeans(cmd.ErrOrStderr(), l, time.Now()), "Release it?"); err != nil {
			return err
		}
		store, err := g.store(cmd.Context())
		if err != nil {
			return err
		}
		freed, err := leasepool.Open(store, g.pool).ForceRelease(cmd.Context(), l.NodeID, version)
		if err != nil {
			return err
		}
		done.Node.Lease, done.Released = lease.Lease(freed), true
	}
	now := time.Now()
	done.Node.State = done.Node.Lease.State(now)
	if g.json {
		return writeJSON(cmd.OutOrStdout(), done)
	}
	if !done.Released {
		return say(cmd.OutOrStdout(), text.Sprintf("node %d is free already; nothing was done\n", l.NodeID))
	}
	if done.Node.Retired { // Invariant: no claim is announced that no process can make
		return say(cmd.OutOrStdout(), text.Sprintf("node %d was released; it is retired, so no process can claim it\n", l.NodeID))
	}
	return say(cmd.OutOrStdout(), text.Sprintf("node %d was released; it can be claimed once its reserved time has passed: %s\n", l.NodeID, moment(done.Node.ReservedUntil, now)))
}

// heldBy finds the lease whose task has this name or, if there is none, the only lease
// whose task's name contains it.
func (g *globals) heldBy(ctx context.Context, task string) (lease.Lease, error) {
	pool, item, err := g.open(ctx)
	if err != nil {
		return lease.Lease{}, err
	}
	all, err := look(ctx, pool, item)
	if err != nil {
		return lease.Lease{}, err
	}
	var exact, similar []lease.Lease
	for _, n := range all.Nodes {
		switch {
		case n.Holder == "":
		case n.Task == task:
			exact = append(exact, n.Lease)
		case strings.Contains(n.Task, task):
			similar = append(similar, n.Lease)
		}
	}
	found := exact
	if len(found) == 0 {
		found = similar
	}
	switch len(found) {
	case 0:
		return lease.Lease{}, usagef("--task %s: no holder in pool %s has that in its name; to list the holders: %s", text.Line(task), g.pool, g.again("list --state held"))
	case 1:
		return found[0], nil
	}
	ids := make([]int, len(found))
	for i, l := range found {
		ids[i] = l.NodeID
	}
	return lease.Lease{}, usagef("--task %s: %d holders have that in their names, of %s; choose one node ID and its --version", text.Line(task), len(found), some(ids))
}

// whatReleaseMeans describes the holder of the node ID and the effect of a release.
func whatReleaseMeans(out io.Writer, l lease.Lease, now time.Time) text.Safe {
	return text.Sprintf("%s%s\n%s\n", inspected(out, l, now),
		text.Sprintf("IDs stay unique: the next holder's begin after %s.", moment(l.ReservedUntil, now)),
		folded(out, text.Sprintf("Until its next renewal %s believes that it holds the node ID: anything but IDs is exclusive only where version %d is checked.", text.Quote(l.Task), l.Version), 2))
}
