package tenure

import (
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

const (
	// measureEvery is the shortest time between two reads of the pool's measurement by a
	// holder.
	measureEvery = 5 * time.Minute
	// turnAfter is the age at which a holder's count is due to be replaced, and turnValid
	// is how long a holder's count is valid. Between these ages, each holder decides at
	// random, at every read, whether it counts; old holders read once in seven and a half
	// minutes. In one case of fourteen, nobody counts in time, and leases are then short
	// until a holder does. The extra millisecond distinguishes a holder's count from one of
	// the poolmetric function.
	turnAfter = 10 * time.Minute
	turnValid = 30*time.Minute + time.Millisecond
)

// Room decides for one holder whether the pool has room for leases that grow. The zero Room
// has none: without a measurement no lease grows.
type Room struct {
	grows bool
	read  bool
	at    time.Duration // time of the last read, on the monotonic clock
	seen  *protocol.Measured
}

// Due reports whether a holder of the given age should read the measurement before a
// renewal at now. Reading is not necessary if the lease could not become longer anyway.
func (r *Room) Due(t Timings, age, now time.Duration) bool {
	return t.Grown(age).Lease > t.TTL && (!r.read || now-r.at >= measureEvery)
}

// Asked records that the measurement is read at now, with or without an answer.
func (r *Room) Asked(now time.Duration) { r.read, r.at = true, now }

// Learn takes over the measurement of the pool's item. Leases grow while
//
//	2 × held + cooling + the holders that Expect still adds ≤ size.
//
// As long as this holds, every holder can die and be replaced at the same time, and all of
// the new processes get a node ID. Growth stops above that limit, and begins again when a
// tenth of the pool less is taken.
func (r *Room) Learn(p protocol.PoolItem) {
	r.seen = p.Measured
	if p.Measured == nil {
		return
	}
	size, m := p.Limit()-p.ExcludeBelow, p.Measured
	taken := 2*m.Held + m.Cooling + max(0, p.Expect-m.Held)
	most := size
	if !r.grows {
		most = size - size/10
	}
	r.grows = taken <= most
}

// Grows reports whether leases may grow at now by this machine's wall clock.
func (r *Room) Grows(now time.Time, skew time.Duration) bool {
	return r.grows && r.seen.Fresh(now, skew)
}

// Turn reports whether it is this holder's turn to count the pool's node IDs. chance is a
// random number from 0 to 1. If a holder made the measurement and it is old, each holder
// that reads it counts with a probability of 1 in m.Held. If no measurement is valid, the
// probability is 1 in eight times the number of open groups. While a measurement of the
// poolmetric function is valid, no holder counts.
func (r *Room) Turn(p protocol.PoolItem, now time.Time, skew time.Duration, chance float64) bool {
	if m := p.Measured; m.Fresh(now, skew) {
		return ByHolder(m) && now.Sub(m.At) >= turnAfter && chance*float64(max(m.Held, 1)) < 1
	}
	first, last := p.GroupsOpen()
	return chance*8*float64(last-first+1) < 1
}

// ByHolder reports whether a holder made the measurement; the duration of its validity
// shows it.
func ByHolder(m *protocol.Measured) bool { return m.Valid == turnValid }

// Count returns the measurement of a holder that counted at the time at.
func Count(held, cooling int, at time.Time) protocol.Measured {
	return protocol.Measured{Held: held, Cooling: cooling, At: at, Valid: turnValid}
}
