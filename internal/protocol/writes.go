package protocol

import (
	"maps"
	"slices"
	"time"
)

// Key names the item of a node ID.
type Key struct {
	Pool   string
	NodeID int
}

// Item returns the key itself; every write embeds a Key.
func (k Key) Item() Key { return k }

// Write is one conditional write of a node ID's item, as a value. The DynamoDB store
// sends it as an UpdateItem (expressions.go has the expressions and the invariants that
// they keep). Other stores call Apply under their lock, and so does code that only checks
// whether a write could succeed. protocoltest.Conformance checks that the two forms agree.
type Write interface {
	Item() Key
	// Apply returns the item after the write, or false if the condition is not met. old is
	// nil if there is no item; Apply does not change it.
	Apply(old *Lease) (Lease, bool)
}

// Seed creates a node ID. Floor is the last millisecond that may not be stamped: now, or
// later if fixed node IDs were in use before.
type Seed struct {
	Key
	Floor time.Time
	// WidenTry is the latest widening try of a narrow pool, or 0 if the pool is not
	// narrow.
	WidenTry int64
}

// Apply implements [Write].
func (w Seed) Apply(old *Lease) (Lease, bool) {
	if old != nil {
		return Lease{}, false
	}
	return Lease{Pool: w.Pool, NodeID: w.NodeID, ReservedUntil: Trunc(w.Floor), WidenTry: w.WidenTry}, true
}

// Claim takes a node ID that is free or expired.
type Claim struct {
	Key
	Session, Task string
	// At is the claimant's wall clock, read before the request is sent.
	At         time.Time
	ClaimGuard time.Duration // σ: how long after its expiry a lease is left alone
	Patience   time.Duration // additional wait after an outage, in which holders could not renew
	TTL        time.Duration // for people and metrics; ExpiresAt decides
	// ExpiresAt and ReservedUntil are the requested values: At + TTL and At + reserve.
	ExpiresAt, ReservedUntil time.Time
	WidenTry                 int64 // the newest try that the claimant has seen
	Metadata                 map[string]string
	OnDemand                 bool // the claimant renews only when the node ID is used
}

// Apply implements [Write].
func (w Claim) Apply(old *Lease) (Lease, bool) {
	switch {
	// Invariant (liveness): as in the expression, the next version is one that an item may have.
	// Otherwise a search would offer this node ID again after each refusal, without end.
	case old == nil, old.Retired, old.WidenTry > w.WidenTry, old.Version >= mostEver:
		return Lease{}, false
	case old.Holder != "" && !old.ExpiresAt.Before(w.expiredBefore()):
		return Lease{}, false
	case old.ReservedUntil.After(w.reservedBy()):
		return Lease{}, false
	}
	l := old.Clone()
	l.Holder, l.Task, l.Version, l.Renewal, l.TTL = w.Session, w.Task, old.Version+1, 0, w.TTL
	l.ExpiresAt, l.NotBefore, l.ReservedUntil = Trunc(w.ExpiresAt), old.ReservedUntil, Trunc(w.ReservedUntil)
	l.Metadata = nil
	if len(w.Metadata) > 0 {
		l.Metadata = maps.Clone(w.Metadata)
	}
	l.TakenFrom, l.OnDemand = old.Holder, w.OnDemand
	return l, true
}

// expiredBefore returns the time before which a lease must have expired to be claimed:
// claimants wait σ after the expiry, in addition to the holder's own guard before it.
//
// Invariant (liveness): if a lease expired in an outage that also affected the claimant,
// the claimant leaves it to its holder for a while, its Patience.
func (w Claim) expiredBefore() time.Time { return Trunc(w.At.Add(-w.ClaimGuard - w.Patience)) }

// reservedBy returns the latest reserved_until of a node ID that may be claimed. It is
// never later than the reserved_until that the claim requests, so that a claim never
// lowers reserved_until.
func (w Claim) reservedBy() time.Time {
	by := Trunc(w.At.Add(w.ClaimGuard))
	if until := Trunc(w.ReservedUntil); until.Before(by) {
		return until
	}
	return by
}

// Renew keeps a node ID for its holder.
type Renew struct {
	Key
	Session string
	Version int64
	// Renewal is the number of this attempt within the version. It grows with each
	// attempt, so an earlier attempt that arrives late is refused.
	Renewal int64
	// ExpiresAt and ReservedUntil are never earlier than any value that this version has
	// requested or seen, confirmed or not: see Term.Attempt of internal/tenure.
	ExpiresAt, ReservedUntil time.Time
	TTL                      time.Duration // of this attempt, for people and metrics; ExpiresAt decides
	// Confirmed is the reserved_until that the sender knows was stored. Asked has the
	// values that the sender has requested since then without getting an answer. A renewal
	// does not overwrite any other value, which would come from a copy of the process.
	Confirmed time.Time
	Asked     []time.Time
	WidenTry  int64
	// Metadata replaces the holder's description of itself; nil does not change it.
	Metadata map[string]string
}

// Apply implements [Write].
func (w Renew) Apply(old *Lease) (Lease, bool) {
	if old == nil || old.Holder != w.Session || old.Version != w.Version || old.Renewal >= w.Renewal ||
		!w.Follows(old.ReservedUntil) || old.WidenTry > w.WidenTry {
		return Lease{}, false
	}
	l := old.Clone()
	l.ExpiresAt, l.ReservedUntil, l.Renewal = Trunc(w.ExpiresAt), Trunc(w.ReservedUntil), w.Renewal
	if w.TTL > 0 {
		l.TTL = w.TTL.Truncate(time.Millisecond)
	}
	if w.Metadata != nil {
		l.Metadata = maps.Clone(w.Metadata)
	}
	return l, true
}

// Follows reports whether the sender itself may have stored this reserved_until.
func (w Renew) Follows(reservedUntil time.Time) bool {
	until := Trunc(reservedUntil)
	return until.Equal(Trunc(w.Confirmed)) || slices.ContainsFunc(w.Asked, func(t time.Time) bool { return until.Equal(Trunc(t)) })
}

// Release releases a node ID. It is sent after every generator has been fenced, and frees
// the milliseconds that were not stamped.
type Release struct {
	Key
	Session string
	Version int64
	// Renewal is the last renewal that the sender knows to be its own. If the item has a
	// larger renewal, a copy of the process sent it. The copy may stamp what it reserved,
	// so the release is refused.
	Renewal int64
	// ReservedUntil is the last millisecond stamped, or not_before if none was.
	ReservedUntil time.Time
}

// Apply implements [Write].
func (w Release) Apply(old *Lease) (Lease, bool) {
	if old == nil || old.Holder != w.Session || old.Version != w.Version || old.Renewal > w.Renewal {
		return Lease{}, false
	}
	l := ended(old, EndReleased)
	l.ReservedUntil = Trunc(w.ReservedUntil)
	return l, true
}

// FreeCopy frees a lease that a copy of the holder's process also renews. It keeps the
// reservation, since the copy may stamp until its next renewal is refused.
type FreeCopy struct {
	Key
	Session string
	Version int64
	// Renewal is the renewal that was seen. If a copy has renewed since, it has reserved
	// more, and the write is refused.
	Renewal int64
	// ReservedUntil is the later of the value that was seen and the sender's own confirmed
	// value, which the copy's renewal may have lowered.
	ReservedUntil time.Time
}

// Apply implements [Write].
func (w FreeCopy) Apply(old *Lease) (Lease, bool) {
	if old == nil || old.Holder != w.Session || old.Version != w.Version || old.Renewal != w.Renewal {
		return Lease{}, false
	}
	l := ended(old, EndFreed)
	l.ReservedUntil = Trunc(w.ReservedUntil)
	return l, true
}

// Abandon releases a node ID whose claim may or may not have succeeded. It is sent for a
// session that has stamped nothing.
type Abandon struct {
	Key
	Session string
}

// Apply implements [Write].
func (w Abandon) Apply(old *Lease) (Lease, bool) {
	if old == nil || old.Holder != w.Session || old.Renewal != 0 {
		return Lease{}, false
	}
	l := freed(old)
	l.ReservedUntil = old.NotBefore
	return l, true
}

// Reap frees a lease that was seen to be expired, if it has not changed since.
type Reap struct {
	Key
	Holder           string
	Version, Renewal int64 // as seen
}

// Apply implements [Write].
func (w Reap) Apply(old *Lease) (Lease, bool) {
	if old == nil || old.Holder != w.Holder || old.Version != w.Version || old.Renewal != w.Renewal {
		return Lease{}, false
	}
	return ended(old, EndExpired), true
}

// ForceRelease frees a lease on an operator's request, whether expired or not. IDs
// stay unique, since reserved milliseconds stay reserved.
type ForceRelease struct {
	Key
	Version int64  // as the operator saw it
	Holder  string // session of that version, for the record of the previous holder
}

// Apply implements [Write].
func (w ForceRelease) Apply(old *Lease) (Lease, bool) {
	if old == nil || old.Holder == "" || old.Version != w.Version {
		return Lease{}, false
	}
	l := ended(old, EndFreed)
	l.Previous.Session = w.Holder
	return l, true
}

// Retire takes a node ID out of use, or brings it back. It changes nothing else, so
// the holder of a retired node ID may finish.
type Retire struct {
	Key
	Retired bool
	// Resize is the revision of the pool whose size requires this write. A write for an
	// older revision is refused.
	Resize int64
}

// Apply implements [Write].
func (w Retire) Apply(old *Lease) (Lease, bool) {
	if old == nil || old.Resize > 0 && old.Resize >= w.Resize {
		return Lease{}, false
	}
	l := old.Clone()
	l.Retired, l.Resize = w.Retired, w.Resize
	return l, true
}

// Raise ends the lease, if any, and reserves every millisecond up to a time. It is for
// tables restored from a backup, which lack the latest reservations.
type Raise struct {
	Key
	To time.Time
}

// Apply implements [Write].
func (w Raise) Apply(old *Lease) (Lease, bool) {
	if old == nil || !old.ReservedUntil.Before(Trunc(w.To)) {
		return Lease{}, false
	}
	l := freed(old)
	l.ReservedUntil = Trunc(w.To)
	return l, true
}

// ended returns the item without its holder, which becomes the previous one.
func ended(old *Lease, how Ending) Lease {
	l := freed(old)
	l.Previous, l.TakenFrom = &Previous{Session: old.Holder, Version: old.Version, Ended: how}, ""
	return l
}

// freed returns the item without its holder. Version and reserved_until do not
// change: version is the fencing token, and reserved_until keeps the next holder from
// repeating this holder's IDs.
func freed(old *Lease) Lease {
	l := old.Clone()
	l.Holder, l.ExpiresAt = "", time.Time{}
	return l
}
