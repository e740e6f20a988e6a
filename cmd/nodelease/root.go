package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// globals are the flags that every command takes.
type globals struct {
	table, pool, endpoint string
	json                  bool
	timeout               time.Duration
	answers               answers
	log                   *slog.Logger // for warnings of the libraries; nil before a command runs
}

func newRoot() *cobra.Command { return newRootWith(&globals{}) }

func newRootWith(g *globals) *cobra.Command {
	var root *cobra.Command
	root = &cobra.Command{
		Use:   "nodelease",
		Short: "Small unique node IDs for stateless processes, leased from DynamoDB",
		Long: "nodelease leases small unique node IDs to stateless processes from a DynamoDB table.\n" +
			"To see it work on this machine, without AWS: nodelease demo\n\n" +
			"No command waits forever: it fails after 10 seconds without an answer.\n" +
			"Exit codes: 0 done, 1 other error (doctor: a problem), 2 usage, 3 pool exhausted, 4 pool not seeded, 5 no access, 6 no answer,\n" +
			"7 lease lost; exec: its program's, 110 + these for its own failures, and 126 and 127 as in shells.",
		Version:       thisBuild().text(),
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
		Example: "  nodelease demo                                   a fleet on this machine, no AWS account\n" +
			"  nodelease doctor --table leases --pool orders    what is wrong, and the command that fixes it\n" +
			"  nodelease list --table leases --pool orders      who holds which node ID\n" +
			"  nodelease id 249733066275188748                  decode an ID",
		DisableSuggestions: true, // noCommand suggests names
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(root, "command", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if g.timeout < 0 {
				return usagef("--timeout %v: use 0, which is no limit, or more", g.timeout)
			}
			// Invariant (S1): a value that a shell variable was to give is not replaced by the default. Such
			// a floor or time would be now, and a node ID that is not fixed would be leased.
			for _, name := range []string{"floor", "to", "fixed"} {
				if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
					return usagef("--%s needs a value, and the one that it was given is empty", name)
				}
			}
			// The endpoint is recorded here so that an error names it even if the command's
			// time is over before there is a client.
			if named := cmp.Or(g.endpoint, os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"), os.Getenv("AWS_ENDPOINT_URL")); named != "" {
				g.answers.endpoint = redacted(named)
			}
			g.log = slog.New(newLog(cmd.ErrOrStderr(), slog.LevelWarn))
			cmd.SetContext(g.answers.begin(cmd.Context(), g.timeout))
			return nil
		},
	}
	root.SetVersionTemplate("{{.Version}}")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&g.table, "table", os.Getenv("NODELEASE_TABLE"), "name or ARN of the DynamoDB `table` (or $NODELEASE_TABLE)")
	f.StringVar(&g.pool, "pool", os.Getenv("NODELEASE_POOL"), "`pool` of node IDs in the table (or $NODELEASE_POOL)")
	f.StringVar(&g.endpoint, "endpoint", "", "DynamoDB `URL`; one on 127.0.0.1 needs no Region and no credentials")
	f.BoolVar(&g.json, "json", false, "print the result as one line of JSON")
	f.DurationVar(&g.timeout, "timeout", 0, "fail after this `duration`; for commands that keep running, until they are ready (default: 10s without an answer)")
	completeFunc(root, "pool", g.completePools)
	completeFunc(root, "table", cobra.NoFileCompletions)
	completeFunc(root, "endpoint", cobra.NoFileCompletions)
	root.AddCommand(newDemo(g), newDemoTask(), newDynamoDB(g),
		newInit(g), newPools(g), newList(g), newInspect(g), newWatch(g), newStats(g), newRelease(g), newSeed(g), newResize(g), newSetLayout(g), newRaise(g), newReap(g), newServices(g), newResolve(g), newID(g), newDoctor(g), newUI(g), newVersion(g))
	root.AddCommand(newExec(g), newExecGuardian(), newServe(g))
	strictHelp(root)
	return root
}

// checkTable reports wrong values of the flags that choose a table.
func (g *globals) checkTable() error {
	if g.table == "" {
		return usagef("which table? Use --table, or set NODELEASE_TABLE")
	}
	if err := protocol.CheckTable(g.table); err != nil {
		return &usageError{err}
	}
	for _, from := range []struct{ name, url string }{
		{"--endpoint", g.endpoint}, {"AWS_ENDPOINT_URL_DYNAMODB", os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")}, {"AWS_ENDPOINT_URL", os.Getenv("AWS_ENDPOINT_URL")},
	} {
		if from.url == "" {
			continue
		}
		if u, err := url.Parse(from.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usagef("%s %s: use a URL such as http://127.0.0.1:8000", from.name, redacted(from.url))
		}
		break // the other sources are not read
	}
	return nil
}

// check reports wrong values of the flags that choose a pool.
func (g *globals) check() error {
	if err := g.checkTable(); err != nil {
		return err
	}
	if g.pool == "" {
		return usagef("which pool? Use --pool, or set NODELEASE_POOL")
	}
	if err := leasepool.CheckName(g.pool); err != nil {
		return &usageError{err}
	}
	return nil
}

// client makes a client whose requests are watched.
func (g *globals) client(ctx context.Context) (*dynamodb.Client, error) {
	client, err := lease.OpenClient(ctx, g.endpoint)
	if err != nil {
		return nil, err
	}
	return g.answers.on(client), nil
}

// store opens the table that the flags name.
func (g *globals) store(ctx context.Context) (*protocol.DynamoDB, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	client, err := g.client(ctx)
	if err != nil {
		return nil, err
	}
	return protocol.NewDynamoDB(client, g.table), nil
}

// open returns the pool that the flags name, and its item. It reads the item first,
// because the pool's verbs retry through throttles and outages, and an unreachable table
// must fail at once.
func (g *globals) open(ctx context.Context) (*leasepool.Pool, leasepool.Item, error) {
	pool, read, err := g.reader(ctx)
	if err != nil {
		return nil, leasepool.Item{}, err
	}
	item, err := read(ctx)
	return pool, item, err
}

// itemReader reads the item of a pool once.
type itemReader func(context.Context) (leasepool.Item, error)

// reader returns the pool that the flags name, and what reads its item.
func (g *globals) reader(ctx context.Context) (*leasepool.Pool, itemReader, error) {
	store, err := g.store(ctx)
	if err != nil {
		return nil, nil, err
	}
	pool := leasepool.Open(store, g.pool)
	pool.Logger = g.log
	return pool, func(ctx context.Context) (leasepool.Item, error) { return store.PoolItem(ctx, g.pool) }, nil
}

// node reads the node ID that arg names.
func (g *globals) node(ctx context.Context, arg string) (lease.Lease, error) {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 || n >= leasepool.MaxSize {
		return lease.Lease{}, usagef("%q is not a node ID: use 0 to %d", arg, leasepool.MaxSize-1)
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
		return lease.Lease{}, fmt.Errorf("pool %s has no node %d: its %s are %d to %d", g.pool, n, count(item.Limit()-item.ExcludeBelow, "node ID", "node IDs"), item.ExcludeBelow, item.Limit()-1)
	}
	return lease.Lease(*l), nil
}

// again returns a command for the same table and pool, to be copied. words must be the
// program's own text.
func (g *globals) again(words string) string {
	s := "nodelease " + words
	if g.table != "" {
		s += " --table " + shellWord(g.table)
	}
	if g.pool != "" {
		s += " --pool " + shellWord(g.pool)
	}
	if g.endpoint != "" {
		s += " --endpoint " + shellWord(redacted(g.endpoint))
	}
	return s
}
