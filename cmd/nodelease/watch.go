package main

import (
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

// change is the change of a node ID between two reads.
type change struct {
	At   time.Time  `json:"at"`
	Kind string     `json:"change"`
	Node listedNode `json:"node"`
	text text.Safe
}

func newWatch(g *globals) *cobra.Command {
	var every, length time.Duration
	var plain bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch a pool live: who claims, releases and loses node IDs",
		Long: "Watch the changes of a pool's node IDs as they happen. On a terminal this is a live view (q ends it), otherwise a line\n" +
			"for each change. Each refresh reads the whole pool: for 1,024 node IDs in use, about 80 read units.",
		Example: "  nodelease watch --table leases --pool orders\n" +
			"  nodelease watch --table leases --pool orders --every 5s --for 1h --plain >>changes.log\n" +
			"  nodelease watch --table leases --pool orders --json | jq -r 'select(.change==\"expired\") | .node.node_id'",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usagef("--every %v: use 100ms or more", every)
			}
			if length < 0 {
				return usagef("--for %v: use 0, which watches until it is stopped, or more", length)
			}
			g.answers.bound(length)
			pool, _, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			w := &watch{pool: pool, every: every, length: length, answers: &g.answers, doctor: g.again("doctor"), silent: outageLine(cmd.ErrOrStderr())}
			switch {
			case g.json:
				return w.lines(ctx, func(_ *listed, changes []change) error {
					for _, c := range changes {
						if err := writeJSON(cmd.OutOrStdout(), c); err != nil {
							return err
						}
					}
					return nil
				})
			case !plain && isTerminal(cmd.InOrStdin()) && isTerminal(cmd.OutOrStdout()) && os.Getenv("TERM") != "dumb":
				return w.live(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			first := true
			return w.lines(ctx, func(l *listed, changes []change) error {
				var b text.Builder
				if first {
					b.Printf("%s  %s\n", l.at.UTC().Format(time.TimeOnly), l.counts())
					first = false
				}
				for _, c := range changes {
					b.Printf("%s\n", folded(cmd.OutOrStdout(), c.line(), 10))
				}
				return say(cmd.OutOrStdout(), b.Safe())
			})
		},
	}
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "how often to read the pool")
	cmd.Flags().DurationVar(&length, "for", 0, "how long to watch (default: until it is stopped)")
	cmd.Flags().BoolVar(&plain, "plain", false, "print lines of text, even on a terminal")
	return cmd
}

// changesBetween compares two reads. If there was no earlier read, every holder is a
// change.
func changesBetween(before, now *listed) (changes []change) {
	old := map[int]listedNode{}
	if before != nil {
		for _, n := range before.Nodes {
			old[n.NodeID] = n
		}
	}
	for _, n := range now.Nodes {
		was, known := old[n.NodeID]
		kind, what := "", text.Safe{}
		switch {
		case before == nil, !known && before.Corrupt[n.NodeID] != "": // Invariant: only a new node ID is made
			if n.Holder != "" {
				kind, what = string(n.State), text.Sprintf("by %s", n.Task)
			}
		case !known:
			kind = "made"
		default:
			kind, what = happened(was, n)
		}
		if kind != "" {
			changes = append(changes, change{now.at.UTC().Truncate(time.Millisecond), kind, n, what})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.Node.NodeID - b.Node.NodeID })
	return changes
}

// happened names the kind of a change of a node ID, and describes it.
func happened(was, is listedNode) (kind string, what text.Safe) {
	switch {
	case is.Version > was.Version && is.Holder == "":
		return "released", text.Sprintf("by %s, which had claimed it in between", is.Task)
	case is.Version > was.Version && was.Holder != "":
		return "claimed", text.Sprintf("by %s, from %s", is.Task, was.Task)
	case is.Version > was.Version:
		return "claimed", text.Sprintf("by %s", is.Task)
	case is.Holder == "" && was.Holder != "" && was.State == lease.Expired:
		return "freed", text.Sprintf("of %s, which had not renewed", was.Task)
	case is.Holder == "" && was.Holder != "":
		return "released", text.Sprintf("by %s, or by an operator", was.Task)
	case is.State == lease.Expired && was.State == lease.Held:
		return "expired", text.Sprintf("of %s", is.Task)
	case is.State == lease.Held && was.State == lease.Expired:
		return "renewed", text.Sprintf("late, by %s", is.Task)
	case is.Retired && !was.Retired:
		return "retired", text.Safe{}
	case !is.Retired && was.Retired:
		return "restored", text.Safe{}
	case is.ReservedUntil.After(was.ReservedUntil) && is.Holder == "":
		return "raised", text.Sprintf("to %s", is.ReservedUntil.Format(time.RFC3339))
	}
	return "", text.Safe{}
}

func (c change) line() text.Safe {
	ink := faint
	switch c.Kind {
	case "claimed", "renewed", "held":
		ink = good
	case "expired", "freed":
		ink = warn
	case "raised", "retired":
		ink = bold
	}
	return text.Sprintf("%s  node %-5d %s v%-3d %s", c.At.UTC().Format(time.TimeOnly), c.Node.NodeID, ink.of("%-8s", c.Kind), c.Node.Version, c.text)
}
