package main

import (
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/remedy"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newStats(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count the node IDs of a pool by state: is it nearly exhausted?",
		Long: "Count the node IDs of a pool by state. Utilization is the share of held node IDs, in percent of those that can be leased (held, free, expired\n" +
			"and cooling). It reads the groups that can have leases; the node IDs of all others were never held.\n\n" +
			"It also shows how many holders could make IDs, and for how long, if DynamoDB became unreachable now: until the end of each\n" +
			"reservation, less the default guards. Leases that grow (--max-ttl) reserve hours; a short lease lasts for seconds.",
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
			return say(cmd.OutOrStdout(), counted(cmd.OutOrStdout(), g, s))
		},
	}
}

// nearlyFull is the utilization, in percent, at which stats begins to advise a larger pool.
const nearlyFull = 80

// counted describes the node IDs of a pool by state, as shown on out.
func counted(out io.Writer, g *globals, s leasepool.Stats) text.Safe {
	var b text.Builder
	b.Printf("pool %s: %s of %s held\n%s\n", bold.of("%s", s.Pool.Pool), bold.of("%.1f %%", s.Utilization), count(s.Capacity, "node ID", "node IDs"), bar(s, barOn(out)))
	for _, c := range []struct {
		state lease.State
		n     int
		means string
	}{
		{lease.Held, s.Held, "a process holds it and renews in time"},
		{lease.Free, s.Free, "can be claimed now"},
		{lease.Expired, s.Expired, "not renewed in time; can be claimed now"},
		{lease.Cooling, s.Cooling, "no live holder; rests until its reserved time has passed"},
		{lease.Retired, s.Retired, "out of use"},
	} {
		b.Printf("%s\n", folded(out, text.Sprintf("  %s %6d  %s", stateInk(c.state).of("%-8s", c.state), c.n, faint.of("%s", c.means)), 19))
	}
	if says := s.Outage.Text(time.Now()); says != "" {
		b.Printf("%s\n", folded(out, text.Sprintf("%s", says), 2))
	}
	for _, n := range slices.Sorted(maps.Keys(s.Corrupt)) {
		b.Printf("%s\n", folded(out, bad.of("  node %d is corrupt: %s", n, s.Corrupt[n]), 4))
	}
	b.Add(forged(g, s.Forged))
	if s.Utilization >= nearlyFull {
		if how, words := remedy.Larger(s.Pool, 2*s.Pool.Size); words != "" {
			b.Printf("To make it larger: %s\n", command(g.again(words)))
		} else {
			b.Printf("%s\n", folded(out, text.Sprintf("For more room, %s", how), 2))
		}
	}
	return b.Safe()
}

// barOn returns how many cells the bar takes on out.
func barOn(out io.Writer) int {
	if width := widthOf(out); width > 0 {
		return min(50, width)
	}
	return 50
}

// bar draws the share of each state among the usable node IDs; the rest is free.
func bar(s leasepool.Stats, cells int) text.Safe {
	share := func(n int) int { return cells * n / max(s.Capacity, 1) }
	held, expired, cooling := share(s.Held), share(s.Expired), share(s.Cooling)
	rest := strings.Repeat("░", cooling) + strings.Repeat("·", max(0, cells-held-expired-cooling))
	return text.Sprintf("%s%s%s", good.of("%s", strings.Repeat("█", held)), warn.of("%s", strings.Repeat("▒", expired)), faint.of("%s", rest))
}
