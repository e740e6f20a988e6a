package tenure

import "time"

// Outage records an outage of a claimant's store, by the monotonic clock. The zero Outage
// has had no answer yet.
//
// When an outage is over, the holders that it suspended resume with the same node IDs. In a
// pool without free node IDs, claimants that waited through the outage would be faster than
// these holders: claimants search every second, and right after an outage most expired
// leases belong to live processes.
type Outage struct {
	heard bool // a request was answered at some time
	down  bool // the last request had no answer
	// since is when the first unanswered request after an answered one was sent.
	since time.Duration
	// Leases that expired after o.from are not claimed before o.until.
	from, until time.Duration
}

const (
	// leftAlone is how long expired leases are left to their holders after an outage. A
	// suspended holder whose milliseconds are used up sends a request one second after its
	// previous one ended, and a request takes a second at most. So the holder sends at
	// least two requests within leftAlone.
	leftAlone = 6 * time.Second
	// shortOutage is how long the store may be silent without suspending holders: lost
	// packets are not an outage.
	shortOutage = 3 * time.Second
	// everyLease is the patience of a claimant that has had no answer yet, and therefore does
	// not know when the outage began.
	everyLease = 24 * time.Hour
)

// Asked records a request that was sent at the time sent, and was answered or abandoned at
// the time now.
//
// Invariant (liveness): the time between an unanswered request and the next one counts as an
// outage, even if the process slept meanwhile. It may have been one, and then the holders of
// the leases that expired in it are about to resume.
func (o *Outage) Asked(sent, now time.Duration, answered bool) {
	switch {
	case !answered && !o.down:
		o.down, o.since = true, sent
	case answered && o.down:
		// An outage is recorded only if no earlier one is still in effect: on a bad line,
		// one would follow another forever.
		if now-o.since >= shortOutage && now >= o.until {
			o.from, o.until = now-o.silent(now), now+leftAlone
		}
		o.down = false
	}
	o.heard = o.heard || answered
}

// silent returns how long the store has been silent at now, for a claimant that had an
// answer before.
func (o *Outage) silent(now time.Duration) time.Duration {
	if !o.heard {
		return everyLease
	}
	return now - o.since
}

// Patience returns how long a lease must have been expired at now, beyond its guard,
// before a claim may take it over.
func (o *Outage) Patience(now time.Duration) time.Duration {
	switch {
	case now < o.until:
		return now - o.from
	case o.down: // the claim may be the request that ends the outage
		return o.silent(now)
	}
	return 0
}
