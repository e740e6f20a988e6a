package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

// terms are the flags of the commands that hold a lease.
type terms struct {
	ttl, renewEvery, guard, claimGuard, wait time.Duration
	maxTTL, maxReserve                       time.Duration
	name                                     string
	metadata                                 []string
}

func (t *terms) register(f *pflag.FlagSet) {
	f.DurationVar(&t.ttl, "ttl", lease.DefaultTTL, "length of a lease that has not grown, 5s to 24h, from 1s with --guard and --claim-guard: how long the node ID of a dead process rests")
	f.DurationVar(&t.renewEvery, "renew-every", 0, "time between renewals, at most half of --ttl (default: a third of --ttl)")
	f.DurationVar(&t.guard, "guard", 0, "how long before the lease could expire its holder stops relying on it (default: a fifth of --ttl, at most 2s)")
	f.DurationVar(&t.claimGuard, "claim-guard", 0, "how long after its expiry another holder's lease is not claimed (default: a tenth of --ttl, at most 1s)")
	f.DurationVar(&t.maxTTL, "max-ttl", 0, "longest lease: where the pool has room, a lease grows to a tenth of its holder's age; the value of --ttl turns growth off (default: $NODELEASE_MAX_TTL, else 15m; exec: --ttl)")
	f.DurationVar(&t.maxReserve, "max-reserve", 0, "longest reservation of a grown lease, half of its holder's age: for that long IDs are made without DynamoDB (default: $NODELEASE_MAX_RESERVE, else 4h)")
	f.DurationVar(&t.wait, "wait", 0, "how long to wait for a free node ID")
	f.StringVar(&t.name, "name", "", "`task` that the lease is listed under (default: the ECS task, else host and pid)")
	f.StringArrayVar(&t.metadata, "metadata", nil, "`name=value` that is stored with the lease; may be repeated")
}

// config returns the configuration of an agent for the table and the pool that the flags
// name.
func (t *terms) config(ctx context.Context, g *globals) (lease.Config, error) {
	if err := t.check(); err != nil {
		return lease.Config{}, err
	}
	metadata, err := t.says()
	if err != nil {
		return lease.Config{}, err
	}
	store, err := g.store(ctx)
	if err != nil {
		return lease.Config{}, err
	}
	return lease.Config{
		Table: g.table, Pool: g.pool, Store: store, Task: t.name, Metadata: metadata,
		TTL: t.ttl, RenewEvery: t.renewEvery, Guard: t.guard, ClaimGuard: t.claimGuard, Wait: t.wait,
		MaxTTL: t.maxTTL, MaxReserve: t.maxReserve, Grow: t.maxTTL > t.ttl,
	}, nil
}

// maxOwnText is how many bytes of name and metadata fit if a renewal is to cost only one
// write unit.
const maxOwnText = 512

// says returns the metadata that the flags set for the lease.
func (t *terms) says() (map[string]string, error) {
	size := len(t.name)
	if text.Cut(t.name, maxOwnText) != t.name {
		return nil, usagef("--name %s: use printable characters", text.Line(t.name))
	}
	metadata := map[string]string{}
	for _, pair := range t.metadata {
		name, value, ok := strings.Cut(pair, "=")
		_, twice := metadata[name]
		switch {
		case !ok || name == "":
			return nil, usagef("--metadata %s: use name=value", text.Line(pair))
		case twice:
			return nil, usagef("--metadata %s: the name %s appears twice", text.Line(pair), name)
		case text.Cut(pair, maxOwnText) != pair:
			return nil, usagef("--metadata %s: use printable characters", text.Line(pair))
		}
		metadata[name] = value
		size += len(name) + len(value)
	}
	if size > maxOwnText {
		return nil, usagef("--name and --metadata have %d bytes together: use at most %d, which keep a renewal at one write unit", size, maxOwnText)
	}
	if len(metadata) == 0 {
		return nil, nil
	}
	return metadata, nil
}

// check reports the errors that the agent would report, but by the names of the flags
// instead of the fields of its Config.
func (t *terms) check() error {
	const shortest, guarded, longest = time.Second, 5 * time.Second, 24 * time.Hour
	for _, d := range []struct {
		flag string
		time.Duration
	}{{"ttl", t.ttl}, {"renew-every", t.renewEvery}, {"guard", t.guard}, {"claim-guard", t.claimGuard}, {"max-ttl", t.maxTTL}, {"max-reserve", t.maxReserve}} {
		if d.Duration%time.Millisecond != 0 {
			return usagef("--%s %v: use whole milliseconds", d.flag, d.Duration)
		}
	}
	switch {
	case t.ttl < shortest || t.ttl > longest:
		return usagef("--ttl %v: use 5s to 24h, or from 1s with --guard and --claim-guard", t.ttl)
	case t.ttl < guarded && (t.guard == 0 || t.claimGuard == 0):
		return usagef("--ttl %v is below %v: set --guard and --claim-guard too; clocks may differ by less than half their sum", t.ttl, guarded)
	case t.guard < 0:
		return usagef("--guard %v: use 0 for the default, or more", t.guard)
	case t.claimGuard < 0:
		return usagef("--claim-guard %v: use 0 for the default, or more", t.claimGuard)
	case t.renewEvery < 0 || t.renewEvery > t.ttl/2:
		return usagef("--renew-every %v: use up to half of --ttl %v, or one lost answer would end the lease", t.renewEvery, t.ttl)
	case t.guard > t.latest():
		return usagef("--guard %v leaves no time to renew: with --ttl %v, renewed every %v, use up to %v", t.guard, t.ttl, t.every(), t.latest())
	case t.claimGuard >= t.ttl:
		return usagef("--claim-guard %v: use less than --ttl %v", t.claimGuard, t.ttl)
	case t.maxTTL != 0 && (t.maxTTL < t.ttl || t.maxTTL > longest):
		return usagef("--max-ttl %v: use --ttl %v, with which the lease does not grow, to 24h", t.maxTTL, t.ttl)
	case t.maxReserve != 0 && (t.maxReserve < t.ttl+t.leastClaimGuard() || t.maxReserve > longest):
		return usagef("--max-reserve %v: use %v, which is --ttl and the claim guard, to 24h", t.maxReserve, t.ttl+t.leastClaimGuard())
	case t.wait < 0:
		return usagef("--wait %v: use 0, which is not at all, or more", t.wait)
	}
	return nil
}

// every returns the interval between renewals: the flag's, or the default.
func (t *terms) every() time.Duration {
	if t.renewEvery > 0 {
		return t.renewEvery
	}
	return (t.ttl / 3).Truncate(time.Millisecond)
}

// latest returns the longest possible guard. It allows for a renewal that is sent up to a
// tenth of the interval late, and for an answer that takes as long again.
func (t *terms) latest() time.Duration { return t.ttl - t.every() - t.every()/5 }

// leastClaimGuard returns the claim guard: the flag's, or the default.
func (t *terms) leastClaimGuard() time.Duration {
	if t.claimGuard > 0 {
		return t.claimGuard
	}
	return min(time.Second, t.ttl/10).Truncate(time.Millisecond)
}

// grace returns the time between SIGTERM and SIGKILL, or an error if the requested time is
// negative or too long. SIGTERM must not be sent while a renewal that is due may still
// succeed, so the grace period must fit between the last moment at which that renewal can
// succeed and the deadline.
func (t *terms) grace(asked time.Duration) (time.Duration, error) {
	guard := t.guard
	if guard == 0 {
		guard = min(2*time.Second, t.ttl/5)
	}
	span := t.ttl - guard // from the renewal to the deadline
	// Invariant (liveness): SIGTERM is not sent before the next renewal is due.
	most := max(span-max(t.every(), t.ttl/3)-t.ttl/10, 0)
	switch {
	case asked == 0:
		return min(span/5, most), nil
	case asked < 0 || asked > most:
		return 0, usagef("--grace %v: use up to %v; with --ttl %v and a guard of %v more would end the program between two renewals", asked, most, t.ttl, guard)
	}
	return asked, nil
}
