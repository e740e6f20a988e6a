package main

import (
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newSetLayout(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "set-layout LAYOUT",
		Short: "Set the layout of a pool's IDs, or correct it before any of its node IDs is used",
		Long: "Set the layout of all IDs of a pool. If the pool has a layout, it can be corrected only until a node ID of the pool has\n" +
			"been claimed, since IDs of it may exist then, and IDs of two layouts can be equal. In that case seed another pool with the\n" +
			"right layout. Run it again if it was interrupted: no process can begin to make IDs until it has finished.\n\nLayouts:\n" + describeLayouts(),
		Example:           "  nodelease set-layout wide16 --table leases --pool orders",
		ValidArgsFunction: cobra.FixedCompletions(leasepool.LayoutNames(), cobra.ShellCompDirectiveNoFileComp),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("which layout? Name one, such as wide16 or 40/3/10")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := parseLayout(args[0])
			if err != nil {
				return err
			}
			pool, _, err := g.open(cmd.Context())
			if err != nil {
				return err
			}
			item, err := pool.SetLayout(cmd.Context(), l)
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), map[string]any{"pool": item})
			}
			return say(cmd.OutOrStdout(), text.Sprintf("all IDs of pool %s have the layout %s\n", g.pool, leasepool.LayoutName(item.Layout.Snowflake())))
		},
	}
}
