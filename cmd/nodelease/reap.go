package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newReap(g *globals) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "reap",
		Short: "Free the numbers whose leases have been expired for more than a minute",
		Long: "Free the numbers whose leases have been expired for more than a minute. Claimants take expired numbers themselves;\n" +
			"reaping makes the table say who is there. When very many are due at once, it waits for a lease's length first and\n" +
			"frees only what has not come back. Then it clears what processes that are gone had registered of their services.\n" +
			"The reaper function does the same.",
		Example: "  nodelease reap --table leases --pool orders --dry-run\n  nodelease reap --table leases --pool orders",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := g.store(cmd.Context())
			if err != nil {
				return err
			}
			if _, err := store.PoolItem(cmd.Context(), g.pool); err != nil {
				return err
			}
			pool := leasepool.Open(store, g.pool)
			done := progressOn(cmd.ErrOrStderr(), pool, "reading")
			var r discovery.ReapReport
			if dry {
				r.ReapReport, err = pool.Due(cmd.Context())
			} else {
				r, err = discovery.Reap(cmd.Context(), pool, discovery.NewTable(store.Table()))
			}
			done()
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), reaped(r))
			return err
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say which numbers would be freed, and change nothing")
	return cmd
}

// reaped tells what a run found and did.
func reaped(r discovery.ReapReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d numbers held, %d due, %d freed", r.Held, len(r.Due), len(r.Freed))
	if len(r.Due) > 0 {
		fmt.Fprintf(&b, "; due: %v", r.Due)
	}
	b.WriteByte('\n')
	if r.Cleared > 0 {
		fmt.Fprintf(&b, "%d entries of services cleared, whose process is gone\n", r.Cleared)
	}
	if r.Braked {
		b.WriteString("very many were due at once; what came back meanwhile was left alone\n")
	}
	if len(r.Stuck) > 0 {
		fmt.Fprintf(&b, "stuck, reserved for hours ahead: %v\n", r.Stuck)
	}
	return b.String() + corrupted(r.Corrupt)
}
