package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newRaise(g *globals) *cobra.Command {
	var to string
	var yes bool
	cmd := &cobra.Command{
		Use:   "raise",
		Short: "After a restore from a backup: reserve all time up to now, so that no ID is made twice",
		Long: "Reserve every millisecond up to a time, for every number of a pool, and end the leases that had less.\n\n" +
			"It is for a table that was restored from a backup, which has forgotten what was stamped since. The order is: stop the\n" +
			"whole fleet, restore, raise every pool to a time behind the last ID that was made, start the fleet. While a fleet runs it\n" +
			"takes the numbers from all holders.",
		Example: "  nodelease raise --table leases --pool orders\n  nodelease raise --table leases --pool orders --to 2026-11-21T04:05:00Z --yes",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			until := now.Add(time.Minute)
			if to != "" {
				var err error
				if until, err = parseTime("--to", to, now); err != nil {
					return err
				}
				if until.Before(now) {
					until = now // as Raise does: what is past is reserved in any case
				}
			}
			pool, _, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			s, err := pool.Stats(cmd.Context())
			if err != nil {
				return err
			}
			question := fmt.Sprintf("All numbers of pool %s will be reserved until %s, and nobody can claim one before that.\n", g.pool, moment(until, now))
			if s.Held > 0 {
				question += bad.Render(fmt.Sprintf("numbers that are held: %d. Stop the fleet first: its tasks will lose them.", s.Held)) + "\n"
			}
			if err := confirm(cmd, yes, question+"Raise them?"); err != nil {
				return err
			}
			done := progressOn(cmd.ErrOrStderr(), pool, "raising")
			c, err := pool.Raise(cmd.Context(), until)
			done()
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), c)
			}
			return say(cmd.OutOrStdout(), fmt.Sprintf("%d numbers of pool %s were raised to %s; the others had as much already\n", c.Raised, g.pool, moment(until, now))+corrupted(c.Corrupt))
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "a `time` behind the last ID that was made (default: a minute from now)")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
