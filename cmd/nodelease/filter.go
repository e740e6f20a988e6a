package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
)

// filter selects the node IDs to show, and their order.
type filter struct {
	states   []string
	task     string
	metadata []string
	sort     string
}

func (f *filter) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "only node IDs in these `states`: held, free, expired, cooling, retired")
	cmd.Flags().StringVar(&f.task, "task", "", "only node IDs whose task contains this `text`")
	cmd.Flags().StringArrayVar(&f.metadata, "metadata", nil, "only node IDs whose metadata has `name=value`, or a value of that name; may be repeated, and all must match")
	cmd.Flags().StringVar(&f.sort, "sort", "node", "sort by `key`: node, state, task, version (highest first), expires or reserved (latest first)")
	complete(cmd, "state", "held", "free", "expired", "cooling", "retired")
	complete(cmd, "sort", slices.Sorted(maps.Keys(orders))...)
}

func (f filter) check() error {
	for _, s := range f.states {
		if !slices.Contains(states, lease.State(s)) {
			return usagef("--state %s: use held, free, expired, cooling or retired", s)
		}
	}
	for _, m := range f.metadata {
		if name, _, _ := strings.Cut(m, "="); name == "" {
			return usagef("--metadata %s: use name=value, or a name", m)
		}
	}
	if orders[f.sort] == nil {
		return usagef("--sort %s: use %s", f.sort, strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
	}
	return nil
}

func (f filter) apply(nodes []listedNode) []listedNode {
	nodes = slices.DeleteFunc(nodes, func(n listedNode) bool { return !f.lets(n) })
	slices.SortStableFunc(nodes, orders[f.sort])
	return nodes
}

func (f filter) lets(n listedNode) bool {
	for _, m := range f.metadata {
		name, want, exact := strings.Cut(m, "=")
		got, there := n.Metadata[name]
		if !there || exact && got != want {
			return false
		}
	}
	return (len(f.states) == 0 || slices.Contains(f.states, string(n.State))) && strings.Contains(n.Task, f.task)
}
