package tenure

import "time"

// Outage is what a claimant knows of an outage of its store, by the monotonic clock.
// The zero value has heard nothing yet.
//
// Holders suspended by an outage resume when it is over, with the same node IDs. In a
// pool without free ones those who waited through it would be there first: they look
// each second, and most expired leases of that moment are of live processes.
type Outage struct {
	heard bool // an answer, ever
	down  bool // the last request had none
	// since is when the last request that had no answer after one that had was sent.
	since time.Duration
	// Leases that expired after from are left alone as long as until lies ahead.
	from, until time.Duration
}

const (
	// leftAlone is how long after an outage expired leases are left to their holders: a
	// suspended holder asks every two seconds at least when its milliseconds have run
	// out, for a second each time, so that it has asked twice by then.
	leftAlone = 6 * time.Second
	// shortOutage is how long the store may be silent without holders being suspended by
	// it: lost packets are no outage.
	shortOutage = 3 * time.Second
	// everyLease is the patience of a claimant that has had no answer yet, and so does not know
	// when the outage began.
	everyLease = 24 * time.Hour
)

// Asked takes into account that a request, sent at sent, was answered at now, or that
// it was given up.
func (o *Outage) Asked(sent, now time.Duration, answered bool) {
	switch {
	case !answered && !o.down:
		o.down, o.since = true, sent
	case answered && o.down:
		// One at a time: on a bad line they would follow each other forever.
		if now-o.since >= shortOutage && now >= o.until {
			o.from, o.until = now-o.silent(now), now+leftAlone
		}
		o.down = false
	}
	o.heard = o.heard || answered
}

// silent is how long the store has been silent at now, for whoever asked when it still
// answered.
func (o *Outage) silent(now time.Duration) time.Duration {
	if !o.heard {
		return everyLease
	}
	return now - o.since
}

// Patience is how long a lease must have been expired at now, beyond its guard, for a
// claim to take it over.
func (o *Outage) Patience(now time.Duration) time.Duration {
	switch {
	case now < o.until:
		return now - o.from
	case o.down: // the claim may be what ends it
		return o.silent(now)
	}
	return 0
}
