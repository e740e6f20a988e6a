package lease

import (
	"math"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// term is one version of a lease as its holder knows it: what it asked for,
// what was confirmed, and until when it may rely on that. It is bookkeeping
// alone: no clock, no lock, no request; the agent brings those, and so do the
// simulations.
//
// m0 is the monotonic clock and w0 the wall clock, both read before the request
// was sent. Trust counts from m0: the store cannot have begun the lease earlier.
type term struct {
	ttl, guard time.Duration
	// spare is how much longer than exclusivity needs milliseconds are reserved:
	// reserve - ttl - claim guard. ID making may go on for that long.
	reserve, spare time.Duration
	lease          Lease // as last confirmed

	asked        int64     // largest renewal number asked for
	askedExpires time.Time // largest expires_at and reserved_until
	askedUntil   time.Time // that this version asked for or saw

	deadline   time.Duration // D: exclusivity ends, on the monotonic clock
	idDeadline time.Duration // E: ID making ends
}

// attempt is one renewal as it was sent.
type attempt struct {
	write protocol.Renew
	m0    time.Duration // when it was sent, or earlier: what trust counts from
}

// verdict is what a refused renewal means.
type verdict int

const (
	landed     verdict = iota // an answer was lost: the renewal is in the table
	relayouted                // the number was marked for a layout that the holder does not know
	taken                     // the number is someone else's, or free: lost
	cloned                    // someone renews with this very session: lost
)

// newTerm begins the term of a claim that was found in the table. m0 is when
// that claim was sent; where it is not known which of several landed, when the
// session sent its first.
func newTerm(c Config, l Lease, m0 time.Duration) *term {
	t := &term{
		ttl: c.TTL, guard: c.Guard, reserve: c.Reserve, spare: c.Reserve - c.TTL - c.ClaimGuard,
		asked: l.Renewal, deadline: math.MinInt64, idDeadline: math.MinInt64,
	}
	t.saw(l.ExpiresAt, l.ReservedUntil)
	t.confirmed(l, m0)
	return t
}

// claimed judges the answer to a claim that was sent at m0 by a session that sent
// its first at first: the term that it begins, or nil, if the number is someone
// else's.
func (c Config) claimed(w protocol.Claim, res protocol.Result, m0, first time.Duration) *term {
	// Where an open try caps what is reserved, trust ends earlier; see missing.
	short := max(w.At.Add(w.TTL+w.ClaimGuard).Sub(w.ReservedUntil), 0)
	m0, first = m0-short, first-short
	switch {
	case res.Applied:
		return newTerm(c, *res.Lease, m0)
	case res.Lease != nil && res.Lease.Holder == w.Session:
		// An earlier attempt landed. Which one is not known, so trust counts from
		// the first.
		return newTerm(c, *res.Lease, first)
	}
	return nil
}

// saw remembers what a renewal must not go below.
func (t *term) saw(expires, until time.Time) {
	t.askedExpires = protocol.Latest(t.askedExpires, expires)
	t.askedUntil = protocol.Latest(t.askedUntil, until)
}

// attempt makes the next renewal, to be sent at once. m0, w0 and its number are
// taken together, by one goroutine.
//
// The store's reserved_until must never fall below any that this version asked
// for: a larger one that was thought lost may land late and be confirmed, and a
// smaller one after it would hand its milliseconds to the next holder. DynamoDB
// has no max(), so the holder takes it over all that it asked for, confirmed or
// not.
//
// While a widening try is open nothing beyond its cap is asked for. False: more
// was asked for already, so there is nothing to ask for until the try is settled.
func (t *term) attempt(m0 time.Duration, w0 time.Time, known protocol.PoolItem) (attempt, bool) {
	until := known.Capped(protocol.Trunc(w0.Add(t.reserve)))
	if known.Capped(t.askedUntil) != t.askedUntil {
		return attempt{}, false
	}
	t.asked++
	t.saw(protocol.Trunc(w0.Add(t.ttl)), until)
	if !known.Cap().IsZero() {
		m0 -= t.missing(w0)
	}
	return attempt{m0: m0, write: protocol.Renew{
		Key: protocol.Key{Pool: t.lease.Pool, NodeID: t.lease.NodeID}, Session: t.lease.Holder, Version: t.lease.Version, Renewal: t.asked,
		ExpiresAt: t.askedExpires, ReservedUntil: t.askedUntil, Layout: known.Widening.Try,
	}}, true
}

// missing is how much less than a lease and the claimants' guard is reserved from
// w0 on. Trust ends that much earlier: when a lease is freed by force, it is what
// is reserved that keeps the next holder from relying on the number.
func (t *term) missing(w0 time.Time) time.Duration {
	return max(w0.Add(t.reserve-t.spare).Sub(t.askedUntil), 0)
}

// confirmed takes over what the table is known to hold since a request that was
// sent at m0. The deadlines never move back, and never count from the answer.
func (t *term) confirmed(l Lease, m0 time.Duration) {
	until := protocol.Latest(t.lease.ReservedUntil, l.ReservedUntil)
	t.lease = l
	t.lease.ReservedUntil = until
	t.deadline = max(t.deadline, m0+t.ttl-t.guard)
	t.idDeadline = max(t.idDeadline, t.deadline)
	if t.spare > 0 {
		t.idDeadline = max(t.idDeadline, m0+t.reserve-t.guard)
	}
}

// refused judges a renewal that the store refused, by the item that refused it.
// landed is a confirmation of that item and of a's own m0: a newer attempt may
// have landed too, but this answer does not prove that it did.
func (t *term) refused(a attempt, cur *Lease) verdict {
	switch {
	case cur == nil || cur.Holder != t.lease.Holder || cur.Version != t.lease.Version:
		return taken
	case cur.Renewal > t.asked:
		return cloned
	case cur.Renewal >= a.write.Renewal:
		return landed
	}
	return relayouted
}

// release gives the number back. last is the last millisecond stamped by any
// generator, all of which are fenced by now; zero when none was.
func (t *term) release(last time.Time) protocol.Release {
	return protocol.Release{
		Key: protocol.Key{Pool: t.lease.Pool, NodeID: t.lease.NodeID}, Session: t.lease.Holder, Version: t.lease.Version,
		ReservedUntil: protocol.Latest(t.lease.NotBefore, last),
	}
}

// held tells whether exclusivity may be relied on at now. It is asked at every
// use, never answered by a timer.
func (t *term) held(now time.Duration) bool { return now < t.deadline }
