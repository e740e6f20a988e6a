package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// listed is the result of list.
type listed struct {
	Pool    leasepool.Item    `json:"pool"`
	Nodes   []listedNode      `json:"nodes"`
	Corrupt leasepool.Corrupt `json:"corrupt,omitempty"`
	own     map[int]bool      // node IDs whose own item is corrupt; other entries of Corrupt are foreign items
	at      time.Time
}

// listedAs returns a lease with its state at now.
func listedAs(l lease.Lease, now time.Time) listedNode {
	return listedNode{Lease: l, State: l.State(now), IDsUntil: l.IDsUntil()}
}

// listedNode is a node ID with its state as of now.
type listedNode struct {
	lease.Lease
	State lease.State `json:"state"`
	// IDsUntil is the time until which the holder can make IDs without DynamoDB.
	IDsUntil time.Time `json:"ids_until,omitzero"`
}

var states = []lease.State{lease.Held, lease.Free, lease.Expired, lease.Cooling, lease.Retired}

// orders are the sort orders of list. The most interesting node IDs come first.
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

func newList(g *globals) *cobra.Command {
	var f filter
	var as form
	var follow bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the node IDs of a pool: state, holder and version",
		Long: "Show the node IDs of a pool: state, version, task, when the lease expires and until when milliseconds are reserved.\n\n" +
			"  held      a process holds it; its lease has not expired\n" +
			"  free      can be claimed now\n" +
			"  expired   its holder has not renewed in time; can be claimed once its reserved time has passed\n" +
			"  cooling   no holder, but milliseconds are reserved that have not passed yet: by its last holder, a floor or a raise\n" +
			"  retired   out of use, since the pool was made smaller\n\n" +
			"-o wide adds each lease's length, and until when its holder can make IDs without DynamoDB: the end of the reservation, less\n" +
			"the default guards.\n\n" +
			"Text written by holders is shown with control characters escaped and cut after 256 characters; --json has all of it.",
		Example: "  nodelease list --table leases --pool orders\n" +
			"  nodelease list --table leases --pool orders --state held,expired --sort expires\n" +
			"  nodelease list --table leases --pool orders --task 3f0a1c -o wide\n" +
			"  nodelease list --table leases --pool orders --metadata zone=eu-west-1a --watch\n" +
			"  nodelease list --table leases --pool orders --state held -o csv >held.csv",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(f.check(), as.check(g)); err != nil {
				return err
			}
			if every < 100*time.Millisecond {
				return usagef("--every %v: use 100ms or more", every)
			}
			pool, read, err := g.reader(cmd.Context())
			if err != nil {
				return err
			}
			item, err := read(cmd.Context())
			if err != nil {
				return err
			}
			if follow {
				return f.follow(cmd, g, pool, read, as, every)
			}
			l, err := look(cmd.Context(), pool, item)
			if err != nil {
				return err
			}
			return as.write(cmd.OutOrStdout(), l, f)
		},
	}
	f.register(cmd)
	as.register(cmd)
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "show it again after each change, until it is stopped")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "how often --watch reads the pool")
	return cmd
}

// complete lets shells complete the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	completeFunc(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeFunc(cmd *cobra.Command, flag string, fn cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, fn); err != nil {
		panic(err) // cannot happen: the flag exists
	}
}

// look reads every node ID of a pool.
func look(ctx context.Context, pool *leasepool.Pool, item leasepool.Item) (*listed, error) {
	l := &listed{Pool: item, Nodes: []listedNode{}, own: map[int]bool{}}
	for n, err := range pool.Leases(ctx) {
		var corrupt *lease.CorruptError
		switch {
		case errors.As(err, &corrupt):
			if l.Corrupt == nil {
				l.Corrupt = leasepool.Corrupt{}
			}
			l.Corrupt[n.NodeID] = corrupt.Err.Error()
			// Invariant: a foreign item is not the item of a node ID. Otherwise it would hide that a
			// node ID is missing.
			if !errors.Is(err, protocol.ErrForeignKey) {
				l.own[n.NodeID] = true
			}
		case err != nil:
			return nil, err
		default:
			l.Nodes = append(l.Nodes, listedNode{Lease: lease.Lease(n)})
		}
	}
	l.at = time.Now()
	for i, n := range l.Nodes {
		l.Nodes[i] = listedAs(n.Lease, l.at)
	}
	return l, nil
}

// counts describes how many node IDs are in each state.
func (l *listed) counts() text.Safe {
	in := map[lease.State]int{}
	for _, n := range l.Nodes {
		in[n.State]++
	}
	return text.Sprintf("%s: %d held, %d free, %d expired, %d cooling, %d retired, %d corrupt", count(len(l.Nodes)+len(l.Corrupt), "node ID", "node IDs"),
		in[lease.Held], in[lease.Free], in[lease.Expired], in[lease.Cooling], in[lease.Retired], len(l.Corrupt))
}

// print writes the table, the corrupt items, and the counts of the whole pool.
func (l *listed) print(out io.Writer, counts text.Safe, wide bool) error {
	var b text.Builder
	if len(l.Nodes) > 0 {
		b.Add(l.sheet(wide).text(widthOf(out)))
	}
	for _, n := range slices.Sorted(maps.Keys(l.Corrupt)) {
		b.Printf("%s\n", folded(out, bad.of("node %d is corrupt: %s", n, l.Corrupt[n]), 4))
	}
	b.Printf("%s\n", folded(out, counts, 2))
	return say(out, b.Safe())
}

func (l *listed) sheet(wide bool) sheet {
	s := sheet{
		headers: []string{"NODE", "STATE", "VERSION", "TASK", "EXPIRES", "RESERVED"}, long: 3,
		ink: func(row, column int) ink {
			if column != 1 {
				return none
			}
			return stateInk(l.Nodes[row].State)
		},
	}
	if wide {
		s.headers = append(s.headers, "LEASE", "IDS UNTIL", "SESSION", "METADATA")
	}
	for _, n := range l.Nodes {
		task := n.Task
		if n.Holder == "" {
			task = "" // the task of the last holder
		} else if n.OnDemand {
			task = "on demand: " + task
		}
		row := []string{itoa(n.NodeID), string(n.State), itoa(n.Version), task, distance(n.ExpiresAt, l.at), distance(n.ReservedUntil, l.at)}
		if wide {
			row = append(row, n.TTL.String(), distance(n.IDsUntil, l.at), text.Session(n.Holder), pairs(withheld(n.Metadata)))
		}
		s.rows = append(s.rows, row)
	}
	return s
}
