package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newStats(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count the numbers of a pool by state: is it nearly exhausted?",
		Long: "Count the numbers of a pool by state. Utilization is what is held, in percent of what can be leased (held, free, expired\n" +
			"and cooling). It reads every number of the pool once.",
		Example: "  nodelease stats --table leases --pool orders\n  nodelease stats --table leases --pool orders --json | jq .utilization",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, _, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			done := progressOn(cmd.ErrOrStderr(), pool, "reading")
			s, err := pool.Stats(cmd.Context())
			done()
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), s)
			}
			return say(cmd.OutOrStdout(), counted(g, s))
		},
	}
}

// nearlyFull is the utilization, in percent, from which a pool wants to be larger.
const nearlyFull = 80

// counted tells the counts of a pool.
func counted(g *globals, s leasepool.Stats) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s: %s of %d numbers held\n%s\n", bold.Render(s.Pool.Pool), bold.Render(fmt.Sprintf("%.1f %%", s.Utilization)), s.Capacity, bar(s, 50))
	for _, c := range []struct {
		state lease.State
		n     int
		means string
	}{
		{lease.Held, s.Held, "somebody's"},
		{lease.Free, s.Free, "can be claimed now"},
		{lease.Expired, s.Expired, "not renewed in time; can be claimed once what it reserved has passed"},
		{lease.Cooling, s.Cooling, "nobody's, until what was reserved has passed"},
		{lease.Retired, s.Retired, "out of use"},
	} {
		fmt.Fprintf(&b, "  %s %6d  %s\n", stateStyle(c.state).Render(fmt.Sprintf("%-8s", c.state)), c.n, faint.Render(c.means))
	}
	for _, n := range slices.Sorted(maps.Keys(s.Corrupt)) {
		fmt.Fprintf(&b, "  %s\n", bad.Render(fmt.Sprintf("node %d is corrupt: %s", n, s.Corrupt[n])))
	}
	if s.Utilization >= nearlyFull && s.Pool.Size < leasepool.MaxSize {
		fmt.Fprintf(&b, "To make it larger: %s\n", g.again(fmt.Sprintf("resize --size %d", min(2*s.Pool.Size, leasepool.MaxSize))))
	}
	return b.String()
}

// bar draws the shares of the states of what can be leased; the rest is free.
func bar(s leasepool.Stats, cells int) string {
	share := func(n int) int { return cells * n / max(s.Capacity, 1) }
	held, expired, cooling := share(s.Held), share(s.Expired), share(s.Cooling)
	return good.Render(strings.Repeat("█", held)) + warn.Render(strings.Repeat("▒", expired)) +
		faint.Render(strings.Repeat("░", cooling)+strings.Repeat("·", max(0, cells-held-expired-cooling)))
}
