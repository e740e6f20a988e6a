package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
)

func newSeed(g *globals) *cobra.Command {
	var size int
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Make a pool and its numbers, where they do not exist",
		Long: "Make a pool and its numbers 0 to size-1, where they do not exist. It may be run again, and by several at once;\n" +
			"what exists is never changed.",
		Example: "  nodelease seed --table nodelease --pool orders --size 1024",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if size < 1 || size > lease.MaxPoolSize {
				return usagef("--size %d: use 1 to %d, the numbers of 16 bits", size, lease.MaxPoolSize)
			}
			pool, _, err := g.open(cmd.Context())
			if err != nil && !errors.Is(err, lease.ErrPoolNotSeeded) {
				return err
			}
			done, err := pool.Seed(cmd.Context(), lease.SeedSpec{Size: size})
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), done)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "pool %s has %d numbers; %d of them were made now\n", g.pool, done.Pool.Size, done.Seeded)
			return err
		},
	}
	cmd.Flags().IntVar(&size, "size", 1024, "how many numbers the pool has, 1 to 65536")
	return cmd
}
