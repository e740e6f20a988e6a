package lease

import (
	"math"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
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
	// stored is what reserved_until the table may have: first the confirmed one, then
	// those that were asked for since, in order, and have had no answer.
	stored []reservation

	deadline   time.Duration // D: exclusivity ends, on the monotonic clock
	idDeadline time.Duration // E: ID making ends
}

// reservation is a reserved_until, and the last renewal that asked for it.
type reservation struct {
	until   time.Time
	renewal int64
}

// mostAsked bounds how many values of reserved_until a term asks for without an
// answer, and so the size of a renewal's condition.
const mostAsked = 20

// attempt is one renewal as it was sent.
type attempt struct {
	write protocol.Renew
	m0    time.Duration // when it was sent, or earlier: what trust counts from
	again bool          // it reserves less than it should: once confirmed, another is due at once
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
		stored: []reservation{{l.ReservedUntil, l.Renewal}},
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
	case res.Lease != nil && res.Lease.Holder == w.Session && res.Lease.Renewal == 0:
		// An earlier attempt landed. Which one is not known, so trust counts from
		// the first. (This session has sent no renewal: one that is there is a copy's.)
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
//
// A renewal goes over nothing but what this process may have stored itself, so that
// a copy of it is noticed by the first one that follows the copy's. After mostAsked
// values without an answer the last one is asked for again, until one is confirmed.
func (t *term) attempt(m0 time.Duration, w0 time.Time, known protocol.PoolItem) (attempt, bool) {
	until := known.Capped(protocol.Trunc(w0.Add(t.reserve)))
	if known.Capped(t.askedUntil) != t.askedUntil {
		return attempt{}, false
	}
	full := len(t.stored) > mostAsked
	if full {
		until = t.askedUntil
	}
	confirmed, asked := t.stored[0].until, t.unanswered()
	t.asked++
	t.saw(protocol.Trunc(w0.Add(t.ttl)), until)
	t.asks()
	if full || !known.Cap().IsZero() {
		m0 -= t.missing(w0)
	}
	return attempt{m0: m0, again: full, write: protocol.Renew{
		Key: protocol.Key{Pool: t.lease.Pool, NodeID: t.lease.NodeID}, Session: t.lease.Holder, Version: t.lease.Version, Renewal: t.asked,
		ExpiresAt: t.askedExpires, ReservedUntil: t.askedUntil, Confirmed: confirmed, Asked: asked, WidenTry: known.Widening.Try,
	}}, true
}

// unanswered returns the values of reserved_until that were asked for since the last
// confirmation.
func (t *term) unanswered() []time.Time {
	var asked []time.Time
	for _, r := range t.stored[1:] {
		asked = append(asked, r.until)
	}
	return asked
}

// asks remembers that renewal t.asked may store t.askedUntil.
func (t *term) asks() {
	if last := &t.stored[len(t.stored)-1]; last.until.Equal(t.askedUntil) {
		last.renewal = t.asked
		return
	}
	t.stored = append(t.stored, reservation{t.askedUntil, t.asked})
}

// strange reports whether an item has another reserved_until than the one that its
// renewal asked for. Of renewals before the last confirmed one nothing is known.
func (t *term) strange(cur *Lease) bool {
	if cur.Renewal <= t.stored[0].renewal {
		return false
	}
	for _, r := range t.stored {
		if r.renewal >= cur.Renewal {
			return !r.until.Equal(cur.ReservedUntil)
		}
	}
	return true
}

// settles forgets what cannot be stored any more: renewals are done in the order of
// their numbers, so nothing that an earlier one than this asked for.
func (t *term) settles(renewal int64) {
	for len(t.stored) > 1 && t.stored[0].renewal < renewal {
		t.stored = t.stored[1:]
	}
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
	t.settles(l.Renewal)
	t.deadline = max(t.deadline, m0+t.ttl-t.guard)
	t.idDeadline = max(t.idDeadline, t.deadline)
	if t.spare > 0 {
		t.idDeadline = max(t.idDeadline, m0+t.reserve-t.guard)
	}
}

// refused judges a renewal that the store refused, by the item that refused it.
// landed is a confirmation of that item and of a's own m0: a newer attempt may
// have landed too, but this answer does not prove that it did.
//
// Renewals are sent one after the other, and the last one is remembered as it was
// sent. An item with its number and other times was written by a copy of this
// process, which numbers its renewals alike. So was one with an earlier number and a
// reserved_until that this process had not asked for.
func (t *term) refused(a attempt, cur *Lease) verdict {
	switch {
	case !t.ours(cur):
		return taken
	case cur.Renewal > t.asked, cur.Renewal == t.asked && !t.sent(cur):
		return cloned
	case t.strange(cur):
		return cloned
	case cur.Renewal >= a.write.Renewal:
		return landed
	case !a.write.Follows(cur.ReservedUntil):
		return cloned
	}
	return relayouted
}

// ceiling bounds stamps by the clock that was sent with what was confirmed last: a
// span of hours is no licence to stamp hours ahead. Without a wall clock that runs
// wild it is a lease above that clock, so no stamp comes near it.
func (t *term) ceiling(w0 time.Time, m0 time.Duration) snowflake.Ceiling {
	return snowflake.Ceiling{At: w0.Add(t.reserve - t.spare), Mono: m0}
}

// sent reports whether an item with the number of the last renewal is as that one
// was sent.
func (t *term) sent(cur *Lease) bool {
	return cur.ExpiresAt.Equal(t.askedExpires) && cur.ReservedUntil.Equal(t.askedUntil)
}

// release releases the node ID. last is the last millisecond stamped by any
// generator, all of which are fenced by now; zero when none was.
//
// It is pinned on the renewal that was confirmed, which is known to be ours.
func (t *term) release(last time.Time) protocol.Release {
	return protocol.Release{
		Key: protocol.Key{Pool: t.lease.Pool, NodeID: t.lease.NodeID}, Session: t.lease.Holder, Version: t.lease.Version, Renewal: t.lease.Renewal,
		ReservedUntil: protocol.Latest(t.lease.NotBefore, last),
	}
}

// releaseAgain returns what to send after a release that cur refused; false when the
// node ID is not ours any more.
func (t *term) releaseAgain(last time.Time, cur *Lease) (protocol.Write, bool) {
	if cur != nil && cur.Renewal == t.asked && t.sent(cur) { // a renewal landed whose answer was lost
		w := t.release(last)
		w.Renewal = t.asked
		return w, t.ours(cur)
	}
	return t.expose(cur)
}

// expose frees the node ID of a process of which there may be a copy, as cur has it.
// It keeps all that is reserved, by either: the copy may stamp it until it is lost
// too, at its next renewal, and nobody else may. False when it is not ours any more.
func (t *term) expose(cur *Lease) (protocol.Write, bool) {
	if !t.ours(cur) {
		return nil, false
	}
	return protocol.FreeCopy{
		Key: protocol.Key{Pool: t.lease.Pool, NodeID: t.lease.NodeID}, Session: t.lease.Holder, Version: t.lease.Version, Renewal: cur.Renewal,
		ReservedUntil: protocol.Latest(cur.ReservedUntil, t.lease.ReservedUntil),
	}, true
}

// ours reports whether an item is this session's, or a copy's of it.
func (t *term) ours(cur *Lease) bool {
	return cur != nil && cur.Holder == t.lease.Holder && cur.Version == t.lease.Version
}

// held reports whether exclusivity may be relied on at now. It is asked at every
// use, never answered by a timer.
func (t *term) held(now time.Duration) bool { return now < t.deadline }
