package tenure

import (
	"math"
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Term is one version of a lease as its holder sees it: the values requested, the values
// confirmed, and how long the holder may rely on them. It is pure bookkeeping, without a
// clock, a lock or a request: the agent and the simulations provide those.
//
// m0 is the monotonic clock and w0 the wall clock, both read before the request was sent.
// The lease is trusted for a time that begins at m0, because the store cannot have begun
// the lease earlier.
type Term struct {
	ttl, guard, claimGuard time.Duration
	// Lease is the lease as last confirmed.
	Lease protocol.Lease
	// Began is when the holder began, and Sent when the newest confirmed request was sent,
	// both on the monotonic clock. Length is the length of the last confirmed request.
	Began, Sent time.Duration
	Length      Length

	asked        int64     // largest renewal number requested
	askedExpires time.Time // largest expires_at that this version requested or saw
	askedUntil   time.Time // largest reserved_until that this version requested or saw
	// stored holds the values of reserved_until that the table may contain: first the
	// confirmed one, then those requested since without an answer, in order.
	stored []reservation

	// Deadline is the end of exclusivity, and IDDeadline the end of making IDs, on the
	// monotonic clock.
	Deadline, IDDeadline time.Duration
}

// reservation is a reserved_until, and the last renewals that requested it, in order: at least
// one, and at most mostAsked.
type reservation struct {
	until time.Time
	sent  []request
}

// request is the number of a renewal, and the expiry that it requested.
type request struct {
	renewal int64
	expires time.Time
}

// last returns the number of the last renewal that requested r.
func (r reservation) last() int64 { return r.sent[len(r.sent)-1].renewal }

// mostAsked bounds how many values of reserved_until a term requests without an
// answer, and so the size of a renewal's condition.
const mostAsked = 20

// Attempt is one renewal as sent.
type Attempt struct {
	Write  protocol.Renew
	M0     time.Duration // when it was sent, or earlier: trust begins here
	Length Length        // how long it is trusted, once confirmed
	Again  bool          // it reserves less than it should: once confirmed, another renewal is due at once
}

// Verdict is the meaning of a refused renewal.
type Verdict int

// The verdicts on a refused renewal.
const (
	Landed Verdict = iota // an answer was lost: the renewal is in the table
	Stale                 // the node ID was marked for a width that the holder has not seen
	Taken                 // the node ID was taken or freed: the lease is lost
	Cloned                // another process renews with this session: the lease is lost
)

// NewTerm begins the term of a claim that was found in the table. m0 is when that claim was
// sent. If it is unknown which of several claims landed, m0 is when the session sent its
// first one.
func NewTerm(c Timings, l protocol.Lease, m0 time.Duration) *Term {
	t := &Term{
		ttl: c.TTL, guard: c.Guard, claimGuard: c.ClaimGuard, Began: m0, Sent: m0,
		asked: l.Renewal, Deadline: math.MinInt64, IDDeadline: math.MinInt64,
		stored: []reservation{{l.ReservedUntil, []request{{l.Renewal, l.ExpiresAt}}}},
	}
	t.saw(l.ExpiresAt, l.ReservedUntil)
	t.Confirmed(l, m0, c.Short())
	return t
}

// Claim returns the claim of a node ID for a session at w0. known is the pool's item as the
// agent has read it.
func (t Timings) Claim(k protocol.Key, session string, w0 time.Time, known protocol.PoolItem) protocol.Claim {
	return protocol.Claim{
		Key: k, Session: session, At: w0, ClaimGuard: t.ClaimGuard, TTL: t.TTL,
		ExpiresAt: w0.Add(t.TTL), ReservedUntil: protocol.Capped(known, w0.Add(t.Reserve)), WidenTry: known.Widening.Try,
	}
}

// Claimed judges the answer to the claim w, which was sent at m0. first is when the session
// sent its first claim. Claimed returns the new term, or nil if another process has the
// node ID.
func (t Timings) Claimed(w protocol.Claim, res protocol.Result, m0, first time.Duration) *Term {
	if l := res.Lease; l != nil {
		// If an open try capped the reservation, trust ends earlier; see missing. The item shows
		// the reservation of the attempt that landed, which may be an earlier one (S2).
		short := max(l.ExpiresAt.Add(w.ClaimGuard).Sub(l.ReservedUntil), 0)
		m0, first = m0-short, first-short
	}
	switch {
	case res.Applied:
		return NewTerm(t, *res.Lease, m0)
	case res.Lease != nil && res.Lease.Holder == w.Session && res.Lease.Renewal == 0:
		// An earlier attempt landed. It is unknown which one, so trust begins with the
		// first. (This session has sent no renewal: a renewal in the item comes from a
		// copy.)
		return NewTerm(t, *res.Lease, first)
	}
	return nil
}

// saw raises the values below which no renewal may go.
func (t *Term) saw(expires, until time.Time) {
	t.askedExpires = protocol.Latest(t.askedExpires, expires)
	t.askedUntil = protocol.Latest(t.askedUntil, until)
}

// Attempt returns the next renewal, which must be sent at once. One goroutine reads m0 and
// w0 and takes the renewal's number, without any other attempt in between.
//
// The store's reserved_until must never fall below any value that this version requested. A
// renewal with a larger value that was considered lost may land late and be confirmed, and
// a later renewal with a smaller value would assign the milliseconds in between to the next
// holder. DynamoDB has no max(), so the holder computes it over all requested values,
// confirmed or not.
//
// While a widening try is open, nothing beyond its cap is requested. If more than the cap
// was requested before, Attempt returns false: no renewal can be sent until the try is
// settled.
//
// want is the desired length; it is limited by the largest allowed reservation. In every
// attempt, the lease is no longer than the reservation less the claimants' guard: if the
// lease is freed by force, only the reservation keeps the next holder from relying on the
// node ID too early.
//
// A renewal overwrites only values that this process may have stored itself, so if a copy
// of this process has renewed, the next renewal is refused and detects the copy. After
// mostAsked values without an answer, the last one is requested again, until one is
// confirmed.
func (t *Term) Attempt(m0 time.Duration, w0 time.Time, known protocol.PoolItem, want Length) (Attempt, bool) {
	until := protocol.Capped(known, protocol.Trunc(w0.Add(want.Reserve)))
	if t.Stuck(known) {
		return Attempt{}, false
	}
	full := len(t.stored) > mostAsked
	if full {
		until = t.askedUntil
	}
	want.Reserve = min(want.Reserve, until.Sub(protocol.Trunc(w0)))
	want.Lease = max(t.ttl, min(want.Lease, want.Reserve-t.claimGuard))
	confirmed, asked := t.stored[0].until, t.unanswered()
	t.asked++
	t.saw(protocol.Trunc(w0.Add(want.Lease)), until)
	t.asks()
	if full || !protocol.Cap(known).IsZero() {
		m0 -= t.missing(w0, want.Lease)
	}
	return Attempt{M0: m0, Length: want, Again: full, Write: protocol.Renew{
		TTL: want.Lease,
		Key: protocol.Key{Pool: t.Lease.Pool, NodeID: t.Lease.NodeID}, Session: t.Lease.Holder, Version: t.Lease.Version, Renewal: t.asked,
		ExpiresAt: t.askedExpires, ReservedUntil: t.askedUntil, Confirmed: confirmed, Asked: asked, WidenTry: known.Widening.Try,
	}}, true
}

// unanswered returns the values of reserved_until that were requested since the last
// confirmation.
func (t *Term) unanswered() []time.Time {
	var asked []time.Time
	for _, r := range t.stored[1:] {
		asked = append(asked, r.until)
	}
	return asked
}

// asks records that renewal number t.asked may store t.askedUntil.
//
// Invariant (liveness): renewals with the same reserved_until are told apart. While a lease that
// had grown is short again, all renewals request the same one, hours ahead. A release would
// otherwise take its own renewal for a copy's, and the node ID would rest for hours.
func (t *Term) asks() {
	now := request{t.asked, t.askedExpires}
	if last := &t.stored[len(t.stored)-1]; last.until.Equal(t.askedUntil) {
		last.sent = append(slices.Clone(last.sent[max(len(last.sent)+1-mostAsked, 0):]), now)
		return
	}
	t.stored = append(t.stored, reservation{t.askedUntil, []request{now}})
}

// strange reports whether an item has a reserved_until other than the one that the renewal
// of its number requested. It returns false for renewals before the last confirmed one,
// whose values are forgotten.
func (t *Term) strange(cur *protocol.Lease) bool {
	if cur.Renewal <= t.stored[0].last() {
		return false
	}
	for _, r := range t.stored {
		if r.last() >= cur.Renewal {
			return !r.until.Equal(cur.ReservedUntil)
		}
	}
	return true
}

// settles forgets the values that only renewals before the given one requested: renewals
// are executed in the order of their numbers, so these values can no longer be stored.
func (t *Term) settles(renewal int64) {
	for len(t.stored) > 1 && t.stored[0].last() < renewal {
		t.stored = t.stored[1:]
	}
	first := &t.stored[0]
	for len(first.sent) > 1 && first.sent[0].renewal < renewal {
		first.sent = first.sent[1:]
	}
}

// missing returns how much shorter the reservation from w0 on is than a lease plus the
// claimants' guard. Trust ends that much earlier: if the lease is freed by force, only the
// reservation keeps the next holder from relying on the node ID too early.
func (t *Term) missing(w0 time.Time, lease time.Duration) time.Duration {
	return max(w0.Add(lease+t.claimGuard).Sub(t.askedUntil), 0)
}

// Confirmed takes over the state that the table is known to have, after a request that was
// sent at m0 with the given length. Deadlines never move back. They are computed from the
// time when the request was sent, not when it was answered, and from the request's own
// length, not from that of a later and longer request, which may not have landed.
func (t *Term) Confirmed(l protocol.Lease, m0 time.Duration, length Length) {
	until := protocol.Latest(t.Lease.ReservedUntil, l.ReservedUntil)
	t.Lease = l
	t.Lease.ReservedUntil = until
	t.settles(l.Renewal)
	t.Deadline = max(t.Deadline, m0+length.Lease-t.guard)
	t.IDDeadline = max(t.IDDeadline, t.Deadline)
	// If more is reserved than exclusivity needs, IDs may be made for longer than
	// exclusivity lasts.
	if length.Reserve > length.Lease+t.claimGuard {
		t.IDDeadline = max(t.IDDeadline, m0+length.Reserve-t.guard)
	}
	t.Sent, t.Length = max(t.Sent, m0), length
}

// Refused judges a renewal that the store refused. cur is the item that the store found. If
// the verdict is Landed, the caller confirms cur with a's own m0: a newer attempt may have
// landed too, but this answer does not prove it.
//
// Renewals are sent one after the other, and the last one is recorded as sent. An item with
// the number of the last renewal but with different times was written by a copy of this
// process, which numbers its renewals the same way. An item with an earlier number and a
// reserved_until that this process had not requested was written by a copy too.
func (t *Term) Refused(a Attempt, cur *protocol.Lease) Verdict {
	switch {
	case !t.ours(cur):
		return Taken
	case cur.Renewal > t.asked, cur.Renewal == t.asked && !t.sent(cur):
		return Cloned
	case t.strange(cur):
		return Cloned
	case cur.Renewal >= a.Write.Renewal:
		return Landed
	case !a.Write.Follows(cur.ReservedUntil):
		return Cloned
	}
	return Stale
}

// Ceiling returns the bound for stamps that follows from the clock of the last confirmed
// request: a reservation of hours does not permit stamps hours ahead. The bound is TTL plus
// the claim guard above that clock, however long the lease is, so stamps come near it only
// if the wall clock is wrong.
func (t *Term) Ceiling(w0 time.Time, m0 time.Duration) snowflake.Ceiling {
	return snowflake.Ceiling{At: w0.Add(t.ttl + t.claimGuard), Mono: m0}
}

// sent reports whether an item has the times that this process's renewal of its number
// requested. Of several renewals with the same reserved_until, only the last mostAsked are
// known; for the others, and for those before the last confirmed one, sent returns false.
func (t *Term) sent(cur *protocol.Lease) bool {
	for _, r := range t.stored {
		for _, w := range r.sent {
			if w.renewal == cur.Renewal {
				return cur.ExpiresAt.Equal(w.expires) && cur.ReservedUntil.Equal(r.until)
			}
		}
	}
	return false
}

// Span returns the span that generators may stamp after the claim, in the pool p.
func (t *Term) Span(p protocol.PoolItem) snowflake.Span {
	return snowflake.Span{
		// Invariant (liveness): a resize to a smaller size may be on its way while a node ID is claimed.
		// The holder may finish, as any other holder of a node ID that is about to be retired.
		NodeID: t.Lease.NodeID, Nodes: max(p.Size, t.Lease.NodeID+1), Eras: p.Eras,
		NotBefore: t.Lease.NotBefore, Until: t.Lease.ReservedUntil, Deadline: t.IDDeadline,
		Ceiling: t.Ceiling(t.Lease.ExpiresAt.Add(-t.ttl), t.Deadline+t.guard-t.ttl), // as of when the claim was sent
	}
}

// Expires returns the latest requested expiry.
func (t *Term) Expires() time.Time { return t.askedExpires }

// Reserved returns the latest requested reserved_until.
func (t *Term) Reserved() time.Time { return t.askedUntil }

// Release returns the write that releases the node ID. last is the last millisecond that
// any generator stamped, or zero if nothing was stamped. All generators are fenced by now.
//
// The write is conditional on the confirmed renewal, which this process certainly sent.
func (t *Term) Release(last time.Time) protocol.Release {
	return protocol.Release{
		Key: protocol.Key{Pool: t.Lease.Pool, NodeID: t.Lease.NodeID}, Session: t.Lease.Holder, Version: t.Lease.Version, Renewal: t.Lease.Renewal,
		ReservedUntil: protocol.Latest(t.Lease.NotBefore, last),
	}
}

// ReleaseAgain returns the write to send after a release was refused and the item was cur.
// It returns false when the node ID no longer belongs to this session.
func (t *Term) ReleaseAgain(last time.Time, cur *protocol.Lease) (protocol.Write, bool) {
	// A renewal landed whose answer was lost: perhaps not the last one. Invariant: this process
	// sent the renewal that is released, because whatever a copy reserved stays reserved (S1).
	if t.ours(cur) && t.sent(cur) {
		w := t.Release(last)
		w.Renewal = cur.Renewal
		return w, true
	}
	return t.Expose(cur)
}

// Expose returns the write that frees the node ID of a process that may have a copy; cur is
// the item as last read. The write keeps every millisecond that the process or its copy has
// reserved: the copy may stamp these milliseconds until its next renewal fails, and nobody
// else may. Expose returns false when the node ID no longer belongs to this session.
func (t *Term) Expose(cur *protocol.Lease) (protocol.Write, bool) {
	if !t.ours(cur) {
		return nil, false
	}
	return protocol.FreeCopy{
		Key: protocol.Key{Pool: t.Lease.Pool, NodeID: t.Lease.NodeID}, Session: t.Lease.Holder, Version: t.Lease.Version, Renewal: cur.Renewal,
		ReservedUntil: protocol.Latest(cur.ReservedUntil, t.Lease.ReservedUntil),
	}, true
}

// ours reports whether an item belongs to this session, or to a copy of this process.
func (t *Term) ours(cur *protocol.Lease) bool {
	return cur != nil && cur.Holder == t.Lease.Holder && cur.Version == t.Lease.Version
}

// Held reports whether exclusivity may be relied on at now. It is called at every use of
// the lease; no timer ends the exclusivity.
func (t *Term) Held(now time.Duration) bool { return now < t.Deadline }
