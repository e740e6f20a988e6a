package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newReap(g *globals) *cobra.Command {
	var t taking
	var once bool
	cmd := &cobra.Command{
		Use:   "reap",
		Short: "Free node IDs whose leases have been expired for more than a minute",
		Long: "Free node IDs whose leases have been expired for more than a minute. Claimants take expired node IDs themselves;\n" +
			"reaping makes the table show only live holders. A lease is freed only if two scans, at least 40 seconds apart, find it\n" +
			"unchanged: after an outage, holders need that time to renew. The command waits for the second scan, and when very many\n" +
			"leases are due at once, for a third. Its findings are kept in the table, so it can be interrupted and run again. Then\n" +
			"it clears the service entries of dead processes. The reaper function does the same, one scan per run.",
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
			pool.Logger = slog.New(unreported{g.log.Handler()})
			done := progressOn(cmd.ErrOrStderr(), pool, "reading")
			defer done()
			ask := func(due []int) error {
				done()
				return t.confirm(cmd, text.Sprintf("Expired for more than a minute: %s of pool %s. Their holders lose them permanently.\n", some(due), g.pool), "Free them?")
			}
			if t.yes {
				ask = nil
			}
			asked := &asking{pool: pool, ask: ask}
			var r leasepool.ReapReport
			switch {
			case t.dry:
				r, err = pool.Due(cmd.Context())
			case once:
				r, err = asked.reap(cmd.Context())
			default:
				r, err = lookAgain(cmd.Context(), cmd.ErrOrStderr(), asked)
			}
			done()
			// Invariant: a run that has freed node IDs shows its report even if it fails later.
			if err != nil && len(r.Freed) == 0 {
				return err
			}
			if err == nil && !t.dry {
				client, table := store.Table()
				r.Cleared, err = discovery.Sweep(cmd.Context(), discovery.NewTable(client, table), g.pool)
			}
			if g.json {
				return cmp.Or(writeJSON(cmd.OutOrStdout(), r), err)
			}
			return cmp.Or(say(cmd.OutOrStdout(), reaped(g, r)), err)
		},
	}
	t.register(cmd)
	cmd.Flags().BoolVar(&once, "no-wait", false, "scan once and exit: a later run frees the leases that are still unchanged")
	return cmd
}

// unreported logs what the report of a run does not have.
type unreported struct{ slog.Handler }

// Handle implements [slog.Handler].
func (u unreported) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "reap: ") { // this command prints it
		return nil
	}
	return u.Handler.Handle(ctx, r)
}

// asking is a reaper that asks before it frees.
type asking struct {
	pool  *leasepool.Pool
	ask   func(due []int) error // nil: nobody is asked
	asked map[int]bool
}

// reap runs Reap after it has asked about every lease that is due.
//
// Invariant: no lease is freed unasked. Leases become due while the command waits, also for
// an answer, and another reaper may scan them meanwhile. But Reap frees only what a scan at
// least 30 s ago has found due, so that Due finds it as well.
func (a *asking) reap(ctx context.Context) (r leasepool.ReapReport, err error) {
	for a.ask != nil {
		if r, err = a.pool.Due(ctx); err != nil {
			return r, err
		}
		due := slices.DeleteFunc(slices.Clone(r.Due), func(n int) bool { return a.asked[n] })
		if len(due) == 0 {
			break
		}
		if err := a.ask(due); err != nil {
			return r, err
		}
		if a.asked == nil {
			a.asked = map[int]bool{}
		}
		for _, n := range due {
			a.asked[n] = true
		}
	}
	return a.pool.Reap(ctx)
}

// mostLooks is the largest number of scans of one command. A braked reaper needs three,
// and an error or another reaper makes it start over.
const mostLooks = 9

// lookAgain scans a pool until each lease that the first scan found is freed or has been
// renewed, and prints the leases that it waits for.
func lookAgain(ctx context.Context, out io.Writer, pool *asking) (r leasepool.ReapReport, err error) {
	for range mostLooks {
		r, err = pool.reap(ctx)
		if err != nil || len(r.Freed) > 0 || len(r.Due) == 0 {
			return r, err
		}
		left := time.Until(r.NextLook)
		switch {
		case r.NextLook.IsZero(): // the scan did not count
			left = time.Minute
			err = say(out, text.Sprintf("%d due; another reaper is running, or a request had no answer: next scan in %v\n", len(r.Due), left))
		case r.Braked:
			err = say(out, text.Sprintf("%d due, so many that their holders may be about to renew: next scan in %v\n", len(r.Due), left.Round(time.Second)))
		default:
			err = say(out, text.Sprintf("%d due; next scan in %v, which frees those that are unchanged\n", len(r.Due), left.Round(time.Second)))
		}
		if err == nil {
			err = protocol.Pause(ctx, left)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// reaped describes what a run found and freed.
func reaped(g *globals, r leasepool.ReapReport) text.Safe {
	var b text.Builder
	b.Printf("%s held, %d due, %d freed", count(r.Held, "node ID", "node IDs"), len(r.Due), len(r.Freed))
	if len(r.Due) > 0 {
		b.Printf("; due: %s", some(r.Due))
	}
	b.Printf("\n")
	if r.Cleared > 0 {
		b.Printf("%s of dead processes cleared in the services\n", count(r.Cleared, "entry", "entries"))
	}
	if r.Braked {
		b.Printf("so many were due at once that none was freed: their holders may be about to renew\n")
	}
	if !r.NextLook.IsZero() && len(r.Freed) == 0 {
		b.Printf("a run after %s frees those that are unchanged\n", protocol.Stamp(r.NextLook))
	}
	if len(r.Stuck) > 0 {
		b.Printf("stuck, reserved for hours ahead: %s\n", some(r.Stuck))
	}
	b.Add(corrupted(r.Corrupt))
	b.Add(forged(g, r.Forged))
	return b.Safe()
}

// forged lists the items with changes that were not written by Nodelease. doctor knows the
// remedy for each.
//
// Invariant: every command that has compared the items shows what it found. Nothing else may
// compare them where there is no reaper function.
func forged(g *globals, found leasepool.Corrupt) text.Safe {
	var b text.Builder
	for _, n := range slices.Sorted(maps.Keys(found)) {
		what := fmt.Sprintf("node %d", n)
		if n < 0 {
			what = "the pool's own item"
		}
		b.Printf("%s\n", bad.of("something other than Nodelease wrote %s: %s", what, found[n]))
	}
	if len(found) > 0 {
		b.Printf("To see what to do about it: %s\n", command(g.again("doctor")))
	}
	return b.Safe()
}
