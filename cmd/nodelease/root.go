package main

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
)

// globals are the flags that every command takes.
type globals struct {
	table, pool, endpoint string
	json                  bool
}

func newRoot() *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:   "nodelease",
		Short: "Small unique numbers for stateless processes, leased from DynamoDB",
		Long: "nodelease leases small unique numbers (node IDs) to stateless processes from a DynamoDB table.\n" +
			"To see it at work on this machine, without AWS: nodelease demo\n\n" +
			"Exit codes: 0 ok, 1 error, 2 usage, 3 pool exhausted, 4 lease lost.",
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("no command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	f := root.PersistentFlags()
	f.StringVar(&g.table, "table", os.Getenv("NODELEASE_TABLE"), "DynamoDB `table` (or $NODELEASE_TABLE)")
	f.StringVar(&g.pool, "pool", os.Getenv("NODELEASE_POOL"), "`pool` of numbers in the table (or $NODELEASE_POOL)")
	f.StringVar(&g.endpoint, "endpoint", "", "DynamoDB `URL`; one on 127.0.0.1 needs no Region and no credentials")
	f.BoolVar(&g.json, "json", false, "print the result as one line of JSON")
	root.AddCommand(newDemo(g), newDemoTask(), newDynamoDB(g), newList(g), newReap(g), newSeed(g), newVersion(g))
	return root
}

// open gives the pool that the flags name, and its item. The pool's verbs go on
// through throttles and outages, so that a table which cannot be reached at all
// is told here, at once.
func (g *globals) open(ctx context.Context) (*lease.Pool, lease.PoolItem, error) {
	var none lease.PoolItem
	if g.table == "" {
		return nil, none, usagef("which table? Use --table, or set NODELEASE_TABLE")
	}
	if g.pool == "" {
		return nil, none, usagef("which pool? Use --pool, or set NODELEASE_POOL")
	}
	if err := lease.CheckPoolName(g.pool); err != nil {
		return nil, none, &usageError{err}
	}
	store, err := lease.Open(ctx, g.table, g.endpoint)
	if err != nil {
		return nil, none, err
	}
	item, err := store.PoolItem(ctx, g.pool)
	return lease.OpenPool(store, g.pool), item, err
}

// writeJSON prints the result of a command as one line.
func writeJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }
