package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// globals are the flags that every command takes.
type globals struct {
	table, pool, endpoint string
	json                  bool
}

func newRoot() *cobra.Command {
	g := &globals{}
	var root *cobra.Command
	root = &cobra.Command{
		Use:   "nodelease",
		Short: "Small unique numbers for stateless processes, leased from DynamoDB",
		Long: "nodelease leases small unique numbers (node IDs) to stateless processes from a DynamoDB table.\n" +
			"To see it at work on this machine, without AWS: nodelease demo\n\n" +
			"Exit codes: 0 ok, 1 error, 2 usage, 3 pool exhausted, 4 lease lost.",
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
		Example: "  nodelease demo                                   a fleet on this machine, no AWS account\n" +
			"  nodelease doctor --table leases --pool orders    what is wrong, and the command that mends it\n" +
			"  nodelease list --table leases --pool orders      who holds which number\n" +
			"  nodelease id 249733066275188748                  take an ID apart",
		SuggestionsMinimumDistance: 2,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(root, "command", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&g.table, "table", os.Getenv("NODELEASE_TABLE"), "DynamoDB `table` (or $NODELEASE_TABLE)")
	f.StringVar(&g.pool, "pool", os.Getenv("NODELEASE_POOL"), "`pool` of numbers in the table (or $NODELEASE_POOL)")
	f.StringVar(&g.endpoint, "endpoint", "", "DynamoDB `URL`; one on 127.0.0.1 needs no Region and no credentials")
	f.BoolVar(&g.json, "json", false, "print the result as one line of JSON")
	root.AddCommand(newDemo(g), newDemoTask(), newDynamoDB(g),
		newList(g), newInspect(g), newWatch(g), newStats(g), newRelease(g), newSeed(g), newResize(g), newRaise(g), newReap(g), newID(g), newDoctor(g), newUI(g), newVersion(g))
	root.AddCommand(newExec(g), newExecGuardian(), newServe(g))
	strictHelp(root)
	return root
}

// check tells whether the flags name a table and a pool.
func (g *globals) check() error {
	switch {
	case g.table == "":
		return usagef("which table? Use --table, or set NODELEASE_TABLE")
	case g.pool == "":
		return usagef("which pool? Use --pool, or set NODELEASE_POOL")
	}
	if u, err := url.Parse(g.endpoint); g.endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return usagef("--endpoint %s: use a URL such as http://127.0.0.1:8000", g.endpoint)
	}
	if err := leasepool.CheckName(g.pool); err != nil {
		return &usageError{err}
	}
	return nil
}

// store gives the table that the flags name.
func (g *globals) store(ctx context.Context) (*lease.DynamoDB, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return lease.Open(ctx, g.table, g.endpoint)
}

// open gives the pool that the flags name, and its item. The pool's verbs go on
// through throttles and outages, so that a table which cannot be reached at all
// is told here, at once.
func (g *globals) open(ctx context.Context) (*leasepool.Pool, leasepool.Item, error) {
	store, err := g.store(ctx)
	if err != nil {
		return nil, leasepool.Item{}, err
	}
	item, err := store.PoolItem(ctx, g.pool)
	return leasepool.Open(store, g.pool), item, err
}

// node reads one number, which the arguments name.
func (g *globals) node(ctx context.Context, arg string) (lease.Lease, error) {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 || n >= leasepool.MaxSize {
		return lease.Lease{}, usagef("%q is no node ID: use 0 to %d", arg, leasepool.MaxSize-1)
	}
	store, err := g.store(ctx)
	if err != nil {
		return lease.Lease{}, err
	}
	item, err := store.PoolItem(ctx, g.pool)
	if err != nil {
		return lease.Lease{}, err
	}
	l, err := store.Get(ctx, g.pool, n)
	if err != nil {
		return lease.Lease{}, err
	}
	if l == nil {
		return lease.Lease{}, fmt.Errorf("pool %s has no node %d: its %d numbers are %d to %d", g.pool, n, item.Size-item.ReservedLow, item.ReservedLow, item.Size-1)
	}
	return *l, nil
}

// again is a command for the same table and pool, to be copied.
func (g *globals) again(words string) string {
	s := "nodelease " + words + " --table " + g.table + " --pool " + g.pool
	if g.endpoint != "" {
		s += " --endpoint " + g.endpoint
	}
	return s
}

// writeJSON prints the result of a command as one line.
func writeJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }
