package tenure

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Timings are the durations of a lease; lease.Config explains each.
type Timings struct {
	TTL, RenewEvery, Guard, ClaimGuard, Reserve time.Duration
	// MaxTTL and MaxReserve limit the growth of a lease with the age of its holder.
	MaxTTL, MaxReserve time.Duration
}

const (
	minTTL = time.Second
	// Below this TTL, the default guards tolerate less clock error than carelessly configured
	// machines have.
	guardedTTL = 5 * time.Second
)

// Complete fills in the durations that are 0 and checks all of them. The promises depend on
// these checks. Each error names a duration and the remedy.
func (t *Timings) Complete() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for name, d := range map[string]time.Duration{"TTL": t.TTL, "RenewEvery": t.RenewEvery, "Guard": t.Guard, "ClaimGuard": t.ClaimGuard, "Reserve": t.Reserve, "MaxTTL": t.MaxTTL, "MaxReserve": t.MaxReserve} {
		if d < 0 {
			bad("%s %v is negative", name, d)
		}
		if d%time.Millisecond != 0 {
			bad("%s %v: the table keeps whole milliseconds", name, d)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if t.TTL == 0 {
		t.TTL = protocol.DefaultTTL
	}
	if t.TTL < minTTL || t.TTL > protocol.MaxTTL {
		bad("TTL %v: use %v to %v", t.TTL, minTTL, protocol.MaxTTL)
		return errs
	}
	if t.TTL < guardedTTL && (t.Guard == 0 || t.ClaimGuard == 0) {
		bad("TTL %v is below %v: set Guard and ClaimGuard; exclusivity tolerates clock errors of half their sum", t.TTL, guardedTTL)
	}
	fill := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def.Truncate(time.Millisecond)
		}
	}
	guard, claimGuard := protocol.DefaultGuards(t.TTL)
	fill(&t.RenewEvery, t.TTL/3)
	fill(&t.Guard, guard)
	fill(&t.ClaimGuard, claimGuard)
	fill(&t.Reserve, t.TTL+t.ClaimGuard)
	if t.RenewEvery > t.TTL/2 {
		bad("RenewEvery %v is more than half of TTL %v: one lost answer would end the lease", t.RenewEvery, t.TTL)
	}
	// A renewal is sent up to a tenth later than RenewEvery, and its answer takes time too:
	// with less room than this, each late renewal would suspend the lease.
	if latest := t.TTL - t.RenewEvery - t.RenewEvery/5; t.Guard > latest {
		bad("Guard %v leaves no time to renew: with TTL %v and RenewEvery %v it may be %v at most", t.Guard, t.TTL, t.RenewEvery, latest)
	}
	if t.ClaimGuard >= t.TTL {
		bad("ClaimGuard %v is not below TTL %v", t.ClaimGuard, t.TTL)
	}
	if t.Reserve < t.TTL+t.ClaimGuard || t.Reserve > protocol.MaxTTL+t.TTL {
		bad("Reserve %v: use TTL + ClaimGuard = %v to %v", t.Reserve, t.TTL+t.ClaimGuard, protocol.MaxTTL+t.TTL)
	}
	return append(errs, t.completeGrowth()...)
}

// completeGrowth does what Complete does, for MaxTTL and MaxReserve.
func (t *Timings) completeGrowth() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t.MaxTTL == 0 {
		t.MaxTTL = max(t.TTL, DefaultMaxTTL)
	}
	if t.MaxReserve == 0 {
		t.MaxReserve = max(t.Reserve, DefaultMaxReserve)
	}
	if t.MaxTTL < t.TTL || t.MaxTTL > protocol.MaxTTL {
		bad("MaxTTL %v: use TTL = %v, with which leases do not grow, to %v", t.MaxTTL, t.TTL, protocol.MaxTTL)
	}
	switch least := t.TTL + t.ClaimGuard; {
	case t.MaxReserve < least:
		bad("MaxReserve %v is below TTL + ClaimGuard = %v: no lease is longer than its reservation", t.MaxReserve, least)
	case t.MaxReserve < t.Reserve || t.MaxReserve > protocol.MaxTTL+t.TTL:
		bad("MaxReserve %v: use Reserve = %v to %v", t.MaxReserve, t.Reserve, protocol.MaxTTL+t.TTL)
	}
	return errs
}

// MaxSkew returns the largest clock error ε between machines for which g + σ ≥ 2ε holds,
// where g is Guard and σ is ClaimGuard.
func (t Timings) MaxSkew() time.Duration { return (t.Guard + t.ClaimGuard) / 2 }
