package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newReap(g *globals) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "reap",
		Short: "Free the numbers whose leases have been expired for more than a minute",
		Long: "Free the numbers whose leases have been expired for more than a minute. Claimants take expired numbers themselves;\n" +
			"reaping makes the table say who is there. When very many are due at once, it waits for a lease's length first and\n" +
			"frees only what has not come back.",
		Example: "  nodelease reap --table leases --pool orders --dry-run\n  nodelease reap --table leases --pool orders",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, _, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			reap := pool.Reap
			if dry {
				reap = pool.Due
			}
			done := progressOn(cmd.ErrOrStderr(), pool, "reading")
			r, err := reap(cmd.Context())
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
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be freed, and free nothing")
	return cmd
}

// reaped tells what a run found and did.
func reaped(r leasepool.ReapReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d numbers held, %d due, %d freed", r.Held, len(r.Due), len(r.Freed))
	if len(r.Due) > 0 {
		fmt.Fprintf(&b, "; due: %v", r.Due)
	}
	b.WriteByte('\n')
	if r.Braked {
		b.WriteString("very many were due at once; what came back meanwhile was left alone\n")
	}
	if len(r.Stuck) > 0 {
		fmt.Fprintf(&b, "stuck, reserved for hours ahead: %v\n", r.Stuck)
	}
	return b.String() + corrupted(r.Corrupt)
}
