package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// change is what happened to a number between two looks.
type change struct {
	At   time.Time  `json:"at"`
	Kind string     `json:"change"`
	Node listedNode `json:"node"`
	text string
}

func newWatch(g *globals) *cobra.Command {
	var every, length time.Duration
	var plain bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch a pool live: who claims, releases and loses numbers",
		Long: "Watch a pool: what happens to its numbers, as it happens. On a terminal it is a live view (q ends it), elsewhere a line\n" +
			"for each change. Each look reads the whole pool: a pool of 1,024 numbers costs some 50 read units a look.",
		Example: "  nodelease watch --table leases --pool orders\n" +
			"  nodelease watch --table leases --pool orders --every 5s --for 1h --plain >>changes.log\n" +
			"  nodelease watch --table leases --pool orders --json | jq -r 'select(.change==\"expired\") | .node.task'",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usagef("--every %v: use 100ms or more", every)
			}
			if length < 0 {
				return usagef("--for %v: use 0, which is until it is stopped, or more", length)
			}
			pool, _, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			w := &watch{pool: pool, every: every, length: length, silent: func(silent bool) {
				text := "the table answers again"
				if silent {
					text = silence
				}
				fmt.Fprintln(cmd.ErrOrStderr(), text)
			}}
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
				text := ""
				if first {
					text, first = l.at.UTC().Format(time.TimeOnly)+"  "+l.counts()+"\n", false
				}
				for _, c := range changes {
					text += c.line() + "\n"
				}
				return say(cmd.OutOrStdout(), text)
			})
		},
	}
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "how often to look")
	cmd.Flags().DurationVar(&length, "for", 0, "how long to watch (default: until it is stopped)")
	cmd.Flags().BoolVar(&plain, "plain", false, "lines of text, also on a terminal")
	return cmd
}

// patience is how long a look may have no answer until that is told: who sees
// nothing happen must not take it for calm.
const (
	patience = 5 * time.Second
	silence  = "no answer from the table for 5s: trying on; nodelease doctor says why"
)

// watch looks at a pool again and again.
type watch struct {
	pool   *leasepool.Pool
	every  time.Duration
	length time.Duration // 0: until it is stopped
	before *listed
	silent func(bool) // is told that there is no answer, and that there is one again
}

// look reads the pool, and tells what has changed since the last look. At the
// first one that is who holds a number.
func (w *watch) look(ctx context.Context) (*listed, []change, error) {
	told := make(chan struct{})
	late := time.AfterFunc(patience, func() { defer close(told); w.silent(true) })
	now, err := look(ctx, w.pool, leasepool.Item{})
	if !late.Stop() {
		<-told
		if err == nil {
			w.silent(false)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	changes := changesBetween(w.before, now)
	w.before = now
	return now, changes, nil
}

// lines tells each look's changes until ctx or the time for it ends; one look
// there always is.
func (w *watch) lines(ctx context.Context, tell func(*listed, []change) error) error {
	var end <-chan time.Time
	if w.length > 0 {
		end = time.After(w.length)
	}
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	for {
		l, changes, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // it was stopped
		case err != nil:
			return err
		}
		if err := tell(l, changes); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			return nil
		case <-ticker.C:
		}
	}
}

// changesBetween compares two looks; before the first one nobody held anything.
func changesBetween(before, now *listed) (changes []change) {
	old := map[int]listedNode{}
	if before != nil {
		for _, n := range before.Nodes {
			old[n.NodeID] = n
		}
	}
	for _, n := range now.Nodes {
		was, known := old[n.NodeID]
		kind, text := "", ""
		switch {
		case before == nil:
			if n.Holder != "" {
				kind, text = string(n.State), "by "+n.Task
			}
		case !known:
			kind = "made"
		default:
			kind, text = happened(was, n)
		}
		if kind != "" {
			changes = append(changes, change{now.at.UTC().Truncate(time.Millisecond), kind, n, text})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.Node.NodeID - b.Node.NodeID })
	return changes
}

// happened names what became of a number.
func happened(was, is listedNode) (kind, text string) {
	switch {
	case is.Version > was.Version && is.Holder == "":
		return "released", fmt.Sprintf("by %s, which had claimed it in between", is.Task)
	case is.Version > was.Version && was.Holder != "":
		return "claimed", fmt.Sprintf("by %s, from %s", is.Task, was.Task)
	case is.Version > was.Version:
		return "claimed", "by " + is.Task
	case is.Holder == "" && was.Holder != "" && was.State == lease.Expired:
		return "freed", "of " + was.Task + ", which had not renewed"
	case is.Holder == "" && was.Holder != "":
		return "released", "by " + was.Task + ", or by an operator"
	case is.State == lease.Expired && was.State == lease.Held:
		return "expired", "of " + is.Task
	case is.State == lease.Held && was.State == lease.Expired:
		return "renewed", "late, by " + is.Task
	case is.Retired && !was.Retired:
		return "retired", ""
	case !is.Retired && was.Retired:
		return "restored", ""
	case is.ReservedUntil.After(was.ReservedUntil) && is.Holder == "":
		return "raised", "to " + is.ReservedUntil.Format(time.RFC3339)
	}
	return "", ""
}

func (c change) line() string {
	style := faint
	switch c.Kind {
	case "claimed", "renewed", "held":
		style = good
	case "expired", "freed":
		style = warn
	case "raised", "retired":
		style = bold
	}
	return fmt.Sprintf("%s  node %-5d %s %s v%d", c.At.UTC().Format(time.TimeOnly), c.Node.NodeID, style.Render(fmt.Sprintf("%-8s", c.Kind)), c.text, c.Node.Version)
}
