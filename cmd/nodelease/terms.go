package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodelease/nodelease/pkg/lease"
)

// terms are the flags of the commands that hold a lease.
type terms struct {
	ttl, guard, claimGuard, wait time.Duration
}

func (t *terms) register(f *pflag.FlagSet) {
	f.DurationVar(&t.ttl, "ttl", lease.DefaultTTL, "length of the lease, 1s to 24h: how long the number of a dead process rests; it is renewed every third of it")
	f.DurationVar(&t.guard, "guard", 0, "how long before the lease could expire nobody relies on it any more (default: a fifth of --ttl, at most 2s)")
	f.DurationVar(&t.claimGuard, "claim-guard", 0, "how long after its expiry someone else's lease is left alone (default: a tenth of --ttl, at most 1s)")
	f.DurationVar(&t.wait, "wait", 0, "how long to wait for a free number")
}

// config is what they mean for an agent on the table and the pool of the flags.
func (t *terms) config(ctx context.Context, g *globals) (lease.Config, error) {
	if err := t.check(); err != nil {
		return lease.Config{}, err
	}
	store, err := g.store(ctx)
	if err != nil {
		return lease.Config{}, err
	}
	return lease.Config{
		Table: g.table, Pool: g.pool, Store: store,
		TTL: t.ttl, Guard: t.guard, ClaimGuard: t.claimGuard, Wait: t.wait,
	}, nil
}

// check says in the flags' names what the agent would say in those of its Config.
func (t *terms) check() error {
	const shortest, guarded, longest = time.Second, 5 * time.Second, 24 * time.Hour
	switch {
	case t.ttl < shortest || t.ttl > longest:
		return usagef("--ttl %v: use 1s to 24h", t.ttl)
	case t.ttl < guarded && (t.guard == 0 || t.claimGuard == 0):
		return usagef("--ttl %v is below %v: give --guard and --claim-guard too; clocks may differ by less than half their sum", t.ttl, guarded)
	case t.guard < 0:
		return usagef("--guard %v: use 0, which is the default, or more", t.guard)
	case t.claimGuard < 0:
		return usagef("--claim-guard %v: use 0, which is the default, or more", t.claimGuard)
	case t.wait < 0:
		return usagef("--wait %v: use 0, which is not at all, or more", t.wait)
	}
	return nil
}

// grace is the time between SIGTERM and SIGKILL. A renewal that comes when it is
// due, or a little later, must never find that SIGTERM was sent: what is left at
// that moment is more than the grace.
func (t *terms) grace(asked time.Duration) (time.Duration, error) {
	guard := t.guard
	if guard == 0 {
		guard = min(2*time.Second, t.ttl/5)
	}
	span := t.ttl - guard                 // from the renewal to the deadline
	most := max(span-t.ttl/3-t.ttl/10, 0) // and the next one is due a third of the lease later
	switch {
	case asked == 0:
		return min(span/5, most), nil
	case asked < 0 || asked > most:
		return 0, usagef("--grace %v: use up to %v; with --ttl %v and a guard of %v more would end the program between two renewals", asked, most, t.ttl, guard)
	}
	return asked, nil
}
