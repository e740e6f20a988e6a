package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// listed is the result of list.
type listed struct {
	Pool    leasepool.Item    `json:"pool"`
	Nodes   []listedNode      `json:"nodes"`
	Corrupt leasepool.Corrupt `json:"corrupt,omitempty"`
	at      time.Time
}

// listedNode is a number with its state as of now.
type listedNode struct {
	lease.Lease
	State lease.State `json:"state"`
}

var states = []lease.State{lease.Held, lease.Free, lease.Expired, lease.Cooling, lease.Retired}

// orders are what list can sort by. What is most in question comes first.
var orders = map[string]func(a, b listedNode) int{
	"node": func(a, b listedNode) int { return 0 },
	"state": func(a, b listedNode) int {
		return cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State))
	},
	"task":     func(a, b listedNode) int { return cmp.Compare(a.Task, b.Task) },
	"version":  func(a, b listedNode) int { return cmp.Compare(b.Version, a.Version) },
	"expires":  func(a, b listedNode) int { return b.ExpiresAt.Compare(a.ExpiresAt) },
	"reserved": func(a, b listedNode) int { return b.ReservedUntil.Compare(a.ReservedUntil) },
}

// filter is what list shows, and in which order.
type filter struct {
	states []string
	task   string
	sort   string
}

func newList(g *globals) *cobra.Command {
	var f filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the numbers of a pool: state, holder and version",
		Long: "Show the numbers of a pool: state, version, task, when the lease expires and until when milliseconds are reserved.\n\n" +
			"  held      somebody's; the lease has not expired\n" +
			"  free      may be claimed now\n" +
			"  expired   somebody's, past its expiry; may be claimed too\n" +
			"  cooling   nobody's, but milliseconds ahead of now are still reserved for its last holder\n" +
			"  retired   out of use, since the pool was made smaller",
		Example: "  nodelease list --table leases --pool orders\n" +
			"  nodelease list --table leases --pool orders --state held,expired --sort expires\n" +
			"  nodelease list --table leases --pool orders --task 3f0a1c\n" +
			"  nodelease list --table leases --pool orders --json | jq '.nodes[] | select(.state==\"held\") | .task'",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			pool, item, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			l, err := look(cmd.Context(), pool, item)
			if err != nil {
				return err
			}
			all := l.counts()
			l.Nodes = f.apply(l.Nodes)
			if g.json {
				return writeJSON(cmd.OutOrStdout(), l)
			}
			return l.print(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "only numbers in these `states`: held, free, expired, cooling, retired")
	cmd.Flags().StringVar(&f.task, "task", "", "only numbers whose task contains this `text`")
	cmd.Flags().StringVar(&f.sort, "sort", "node", "by node, state, task, version (highest first), expires or reserved (latest first)")
	complete(cmd, "state", "held", "free", "expired", "cooling", "retired")
	complete(cmd, "sort", slices.Sorted(maps.Keys(orders))...)
	return cmd
}

// complete lets shells complete the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not there
	}
}

func (f filter) check() error {
	for _, s := range f.states {
		if !slices.Contains(states, lease.State(s)) {
			return usagef("--state %s: use held, free, expired, cooling or retired", s)
		}
	}
	if orders[f.sort] == nil {
		return usagef("--sort %s: use %s", f.sort, strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
	}
	return nil
}

func (f filter) apply(nodes []listedNode) []listedNode {
	nodes = slices.DeleteFunc(nodes, func(n listedNode) bool {
		return len(f.states) > 0 && !slices.Contains(f.states, string(n.State)) || !strings.Contains(n.Task, f.task)
	})
	slices.SortStableFunc(nodes, orders[f.sort])
	return nodes
}

// look reads every number of a pool.
func look(ctx context.Context, pool *leasepool.Pool, item leasepool.Item) (*listed, error) {
	l := &listed{Pool: item, Nodes: []listedNode{}}
	for n, err := range pool.Leases(ctx) {
		var corrupt *lease.CorruptError
		switch {
		case errors.As(err, &corrupt):
			if l.Corrupt == nil {
				l.Corrupt = leasepool.Corrupt{}
			}
			l.Corrupt[n.NodeID] = corrupt.Err.Error()
		case err != nil:
			return nil, err
		default:
			l.Nodes = append(l.Nodes, listedNode{Lease: n})
		}
	}
	l.at = time.Now()
	for i, n := range l.Nodes {
		l.Nodes[i].State = n.Lease.State(l.at)
	}
	return l, nil
}

// counts says how many numbers are in which state.
func (l *listed) counts() string {
	in := map[lease.State]int{}
	for _, n := range l.Nodes {
		in[n.State]++
	}
	return fmt.Sprintf("%d numbers: %d held, %d free, %d expired, %d cooling, %d retired, %d corrupt", len(l.Nodes)+len(l.Corrupt),
		in[lease.Held], in[lease.Free], in[lease.Expired], in[lease.Cooling], in[lease.Retired], len(l.Corrupt))
}

func (l *listed) print(out io.Writer, counts string) error {
	text := counts + "\n"
	for _, n := range slices.Sorted(maps.Keys(l.Corrupt)) {
		text = bad.Render(fmt.Sprintf("node %d is corrupt: %s", n, l.Corrupt[n])) + "\n" + text
	}
	if len(l.Nodes) > 0 {
		text = l.sheet().text(widthOf(out)) + text
	}
	return say(out, text)
}

func (l *listed) sheet() sheet {
	s := sheet{
		headers: []string{"NODE", "STATE", "VERSION", "TASK", "EXPIRES", "RESERVED"}, long: 3,
		style: func(row, column int) lipgloss.Style {
			if column != 1 {
				return lipgloss.NewStyle()
			}
			return stateStyle(l.Nodes[row].State)
		},
	}
	for _, n := range l.Nodes {
		task := n.Task
		if n.Holder == "" {
			task = "" // it was the last one's
		}
		s.rows = append(s.rows, []string{fmt.Sprint(n.NodeID), string(n.State), fmt.Sprint(n.Version), task, distance(n.ExpiresAt, l.at), distance(n.ReservedUntil, l.at)})
	}
	return s
}
