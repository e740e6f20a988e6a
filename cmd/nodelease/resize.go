package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newResize(g *globals) *cobra.Command {
	s := sizes{}
	cmd := &cobra.Command{
		Use:   "resize",
		Short: "Change how many numbers a pool has",
		Long: "Change how many numbers a pool has. Growing takes retired numbers back into use and makes the missing ones. Shrinking\n" +
			"retires the highest: their holders may finish, nobody else may claim them, and nothing is deleted.\n" +
			"It may be run again: it goes on where it stopped. Where a stack declares the size, change it there as well.",
		Example: "  nodelease resize --table leases --pool orders --size 2048",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("size") {
				return usagef("to which size? Use --size, 1 to %d", leasepool.MaxSize)
			}
			spec, err := s.spec()
			if err != nil {
				return err
			}
			pool, item, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("reserved-low") {
				spec.ReservedLow = item.ReservedLow
			}
			spec.Narrow = narrow(item)
			if spec.ReservedLow >= spec.Size {
				return usagef("--size %d: the lowest %d numbers of the pool are reserved; use a larger size", spec.Size, spec.ReservedLow)
			}
			done := progressOn(cmd.ErrOrStderr(), pool, "resizing")
			c, err := pool.Resize(cmd.Context(), spec)
			done()
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), c)
			}
			return say(cmd.OutOrStdout(), resized(item, c))
		},
	}
	s.flags(cmd, "how many numbers the pool has from now on, 1 to 65536")
	cmd.Flags().Lookup("reserved-low").Hidden = true // it cannot be changed
	return cmd
}

// narrow tells whether the width of the pool's node IDs follows what is in use.
func narrow(p leasepool.Item) bool { return len(p.Eras) > 0 }

// resized tells what a resize did.
func resized(before leasepool.Item, c leasepool.Changes) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s has %d numbers now, before %d: %d made, %d back in use, %d retired\n", c.Pool.Pool, c.Pool.Size, before.Size, c.Seeded, c.Restored, c.Retired)
	if c.Finishing > 0 {
		fmt.Fprintf(&b, "%d retired numbers are still held; their holders may finish, and get another number when they start again\n", c.Finishing)
	}
	return b.String() + corrupted(c.Corrupt)
}

// corrupted names the items that were left alone.
func corrupted(c leasepool.Corrupt) string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "node %d is corrupt and was left alone: %s\n", n, c[n])
	}
	return b.String()
}
