package tenure

import (
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

const (
	// DefaultMaxTTL is the length up to which leases grow: a renewal every seven and a half
	// minutes costs a ninetieth of one every five seconds, and much longer leases save little more.
	DefaultMaxTTL = 15 * time.Minute
	// DefaultMaxReserve bounds how far ahead growing leases reserve.
	DefaultMaxReserve = 4 * time.Hour
	// narrowReserve is how far ahead a grown lease of a narrow pool reserves: a change
	// of the width begins after all reservations.
	narrowReserve = time.Minute
)

// Length is the length that one attempt requests: of the lease, and of the
// reservation ahead of its clock.
type Length struct{ Lease, Reserve time.Duration }

// Short returns the length of every claim, and of the renewals of a lease that does not
// grow.
func (t Timings) Short() Length { return Length{t.TTL, t.Reserve} }

// Grows reports whether leases of these durations grow at all.
func (t Timings) Grows() bool { return t.MaxTTL > t.TTL }

// In returns the durations for leases of the pool p. Leases in a pool of one node ID never
// grow: the process that replaces a crashed holder has no other node ID to take.
func (t Timings) In(p protocol.PoolItem) Timings {
	if p.Limit()-p.ExcludeBelow <= 1 {
		t.MaxTTL = t.TTL
	}
	if p.Narrow() {
		t.MaxReserve = max(t.Reserve, min(t.MaxReserve, narrowReserve))
	}
	return t
}

// Grown returns the length for a holder of the given age: a tenth of its age for the lease,
// half of it for the reservation. So a crashed holder's node ID is unusable for at most
// half of the time that it was in use, or, if that is longer, for as long as after a short
// lease.
//
// The lease is never longer than the reservation less the claimants' guard: if the lease is
// freed by force, only the reservation keeps the next holder from relying on the node ID
// too early.
func (t Timings) Grown(age time.Duration) Length {
	if !t.Grows() {
		return t.Short()
	}
	reserve := max(t.Reserve, min(age/2, t.MaxReserve)).Truncate(time.Millisecond)
	return Length{
		Lease:   max(t.TTL, min(age/10, t.MaxTTL, reserve-t.ClaimGuard)).Truncate(time.Millisecond),
		Reserve: reserve,
	}
}

// RenewIn returns the pause after a confirmed attempt of the length: RenewEvery plus half
// of the growth of the lease. At the end of this pause, a grown lease still has minutes
// left, enough for many attempts. So, relative to its length, a grown lease is renewed a
// third less often than a short one.
func (t Timings) RenewIn(l Length) time.Duration {
	return t.RenewEvery + max(0, l.Lease-t.TTL)/2
}

// Pause returns the pause before the next renewal at now: RenewIn of the last confirmed
// length. If the last answer came late, because the process was frozen or its machine
// slept, the pause is shorter, so that at its end at least as much time is left on the
// lease as usual. The pause is never shorter than that of a short lease.
func (t Timings) Pause(of *Term, now time.Duration) time.Duration {
	in := t.RenewIn(of.Length)
	usual := max(of.Length.Lease, t.TTL) - t.Guard - in // the time left when the pause is over
	return min(in, max(t.RenewEvery, of.Deadline-now-usual))
}

// FirstIn returns the pause before the first renewal after a claim, or after requests
// without an answer. The pause is between half of RenewIn and one and a half times RenewIn,
// as selected by share, which is from 0 up to 1. So the renewals of a fleet that starts or
// resumes all at once are spread evenly over their interval from then on. The pause is at
// most two thirds of trust, the time for which the lease may still be relied on.
func (t Timings) FirstIn(l Length, trust time.Duration, share float64) time.Duration {
	every := t.RenewIn(l)
	most := max(min(every+every/2, trust*2/3), 0)
	least := min(every/2, most)
	return least + time.Duration(share*float64(most-least))
}

// Postponed returns how long a holder whose lease may no longer grow waits at now before
// its next request. While its lease is longer than a renewal would make it, the renewal
// waits until two thirds of TTL are left, so a fleet whose pool fills up sends no
// additional requests.
func (t *Term) Postponed(now time.Duration) time.Duration {
	if t.Deadline-t.Sent <= t.ttl-t.guard { // a short lease, which is renewed at the configured interval
		return 0
	}
	return max(0, t.Deadline-now-t.ttl*2/3)
}
