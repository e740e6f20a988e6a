package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newRaise(g *globals) *cobra.Command {
	var to string
	var t taking
	cmd := &cobra.Command{
		Use:   "raise",
		Short: "After a restore from a backup: reserve all time up to now, so that no ID is made twice",
		Long: "Reserve every millisecond up to a time, for every node ID of a pool, and end all leases.\n\n" +
			"It is for a table that was restored from a backup and so has lost all reservations since. The order is: stop the\n" +
			"whole fleet, restore, raise every pool to a time after the last ID that was made, start the fleet. If the fleet is\n" +
			"running, all holders lose their node IDs. A process that cannot be stopped can continue to make IDs until its reservation\n" +
			"ends, for up to 4 h where leases grow (--max-reserve): raise to a time after that.",
		Example: "  nodelease raise --table leases --pool orders --dry-run\n  nodelease raise --table leases --pool orders --to +10m --yes",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			until := now.Add(time.Minute)
			if to != "" {
				var err error
				if until, err = parseFuture("--to", to, now); err != nil {
					return err
				}
			}
			pool, item, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			l, err := look(cmd.Context(), pool, item)
			if err != nil {
				return err
			}
			would := leasepool.Changes{Pool: item, Corrupt: l.Corrupt}
			held, there := 0, 0
			see := func(n int) {
				if n >= item.ExcludeBelow && n < item.Limit() {
					there++
				}
			}
			for n := range l.own {
				see(n)
			}
			for _, n := range l.Nodes {
				see(n.NodeID)
				if n.ReservedUntil.Before(until) || n.Holder != "" {
					would.Raised++
					// Invariant: the question names every holder that can make IDs. A retired node ID may have one.
					if n.State == lease.Held || n.Holder != "" && n.Retired && !n.ExpiresAt.Before(l.at) {
						held++
					}
				}
			}
			would.Seeded = max(0, item.Limit()-item.ExcludeBelow-there)
			if t.dry && g.json {
				return writeJSON(cmd.OutOrStdout(), would)
			}
			var means text.Builder
			means.Printf("All node IDs of pool %s will be reserved until %s, and none can be claimed before that.\n", g.pool, moment(until, now))
			if held > 0 {
				means.Printf("%s\n", bad.of("%s held. Stop the fleet first: its tasks will lose them.", count(held, "node ID is", "node IDs are")))
			}
			if t.dry {
				return say(cmd.OutOrStdout(), text.Sprintf("%s%s to raise%s. A dry run: nothing was done.\n", means.Safe(), count(would.Raised, "node ID", "node IDs"), missed(would.Seeded, "missing to make")))
			}
			ahead := until.After(time.Now()) // not with --to now
			if err := t.confirm(cmd, means.Safe(), "Raise them?"); err != nil {
				return err
			}
			// Invariant: the pool is raised to the time that was shown. A time that has passed while the
			// user thought about the question would mean now.
			if ahead && until.Before(time.Now()) {
				return fmt.Errorf("%s has passed meanwhile, and nothing was done: run it again", stamp(until))
			}
			done := progressOn(cmd.ErrOrStderr(), pool, "raising")
			c, err := pool.Raise(cmd.Context(), until)
			done()
			if err != nil {
				// Invariant (S1): nobody takes a pool for raised that is raised in part. Its other node IDs have
				// forgotten what was reserved since the backup.
				if c.Pool.Pool != "" {
					_ = say(cmd.ErrOrStderr(), text.Sprintf("pool %s is raised in part only (%s): run it again before any process starts\n", g.pool, count(c.Raised, "node ID", "node IDs")))
				}
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), c)
			}
			return say(cmd.OutOrStdout(), text.Sprintf("%s of pool %s raised to %s%s; the others were already reserved that far\n%s",
				count(c.Raised, "node ID", "node IDs"), g.pool, moment(until, now), missed(c.Seeded, "missing made"), corrupted(c.Corrupt)))
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "a `time` after the last ID that was made, not in the past (default: a minute from now)")
	t.register(cmd)
	return cmd
}

// missed describes the node IDs that a raise creates because they are missing.
func missed(n int, what string) text.Safe {
	if n == 0 {
		return text.Safe{}
	}
	return text.Sprintf(", %d %s", n, what)
}
