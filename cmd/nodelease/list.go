package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
)

// listed is the result of list.
type listed struct {
	Pool    lease.PoolItem `json:"pool"`
	Nodes   []listedNode   `json:"nodes"`
	Corrupt lease.Corrupt  `json:"corrupt,omitempty"`
	at      time.Time
}

// listedNode is a number with its state as of now.
type listedNode struct {
	lease.Lease
	State lease.State `json:"state"`
}

func newList(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "Show every number of a pool: its state, holder and version",
		Example: "  nodelease list --table nodelease --pool orders",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, item, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			l := &listed{Pool: item, Nodes: []listedNode{}, at: time.Now()}
			if err := l.read(cmd.Context(), pool); err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), l)
			}
			return l.print(cmd.OutOrStdout())
		},
	}
}

func (l *listed) read(ctx context.Context, pool *lease.Pool) error {
	for n, err := range pool.Leases(ctx) {
		var corrupt *lease.CorruptError
		switch {
		case errors.As(err, &corrupt):
			if l.Corrupt == nil {
				l.Corrupt = lease.Corrupt{}
			}
			l.Corrupt[n.NodeID] = corrupt.Err.Error()
		case err != nil:
			return err
		default:
			l.Nodes = append(l.Nodes, listedNode{n, n.State(l.at)})
		}
	}
	return nil
}

func (l *listed) print(out io.Writer) error {
	states := map[lease.State]int{}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tVERSION\tTASK\tEXPIRES\tRESERVED")
	for _, n := range l.Nodes {
		states[n.State]++
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\n", n.NodeID, n.State, n.Version, n.Task, l.when(n.ExpiresAt), l.when(n.ReservedUntil))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for n, why := range l.Corrupt {
		fmt.Fprintf(out, "node %d is corrupt: %s\n", n, why)
	}
	_, err := fmt.Fprintf(out, "%d numbers: %d held, %d free, %d expired, %d cooling, %d retired, %d corrupt\n", len(l.Nodes)+len(l.Corrupt),
		states[lease.Held], states[lease.Free], states[lease.Expired], states[lease.Cooling], states[lease.Retired], len(l.Corrupt))
	return err
}

// when tells a time by its distance from now, which is what one wants to know.
func (l *listed) when(t time.Time) string {
	switch d := t.Sub(l.at).Round(time.Second / 10); {
	case t.IsZero():
		return "-"
	case d < 0:
		return (-d).String() + " ago"
	default:
		return "in " + d.String()
	}
}
