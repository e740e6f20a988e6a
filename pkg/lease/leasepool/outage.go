package leasepool

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Outage describes how an outage of DynamoDB that begins now would affect the holders of
// a pool. It counts the holders whose lease has not expired, except holders on demand,
// which make IDs only occasionally. It assumes the default guards: see
// [protocol.Lease.IDsUntil].
type Outage struct {
	Holders     int `json:"holders"`
	Hour        int `json:"hour"`         // holders that can make IDs for at least an hour
	FiveMinutes int `json:"five_minutes"` // holders that can make IDs for at least five minutes, including Hour
	// FirstStops is when the first holder can no longer make IDs; zero if there is no holder.
	FirstStops time.Time `json:"first_stops_at,omitzero"`
}

// Add counts a holder that can make IDs until a given time.
func (o *Outage) Add(until, now time.Time) {
	o.Holders++
	left := until.Sub(now)
	if left >= time.Hour {
		o.Hour++
	}
	if left >= 5*time.Minute {
		o.FiveMinutes++
	}
	if o.FirstStops.IsZero() || until.Before(o.FirstStops) {
		o.FirstStops = until
	}
}

// Text describes the outage at the time now in a sentence. It returns "" if there is no
// holder.
func (o Outage) Text(now time.Time) string {
	if o.Holders == 0 {
		return ""
	}
	first := "the first stops now"
	if left := o.FirstStops.Sub(now); left >= time.Second {
		first = "the first stops in " + roughly(left)
	}
	holders := func(n int) string {
		if n == 1 {
			return "1 holder makes IDs"
		}
		return fmt.Sprintf("%d holders make IDs", n)
	}
	return fmt.Sprintf("If DynamoDB went away now: %s for at least 1 h, %d for at least 5 min, %s.", holders(o.Hour), o.FiveMinutes, first)
}

// roughly formats a duration in its one or two largest units, rounded down.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}

// withstands adds a lease if, according to the table, its holder can make IDs now.
func (o *Outage) withstands(l protocol.Lease, now time.Time) {
	if l.Holder != "" && !l.OnDemand && !l.ExpiresAt.Before(now) {
		o.Add(l.IDsUntil(), now)
	}
}
