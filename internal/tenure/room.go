package tenure

import (
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

const (
	// measureEvery is how often a holder reads the pool's measurement at most.
	measureEvery = 5 * time.Minute
	// turnAfter is the age of a holder's count from which another may take the turn to count
	// again, and turnValid for how long such a count is valid. In between, each holder
	// draws with every read, among old ones once in seven and a half minutes. If nobody
	// counts in time, which happens once in fourteen times then, leases are short until
	// the next one does. The millisecond tells such a count from one of the function.
	turnAfter = 10 * time.Minute
	turnValid = 30*time.Minute + time.Millisecond
)

// Room decides whether the pool has room for leases that grow, for one holder. The zero
// Room has none: without a measurement nothing grows.
type Room struct {
	grows bool
	read  bool
	at    time.Duration // of the last read, on the monotonic clock
	seen  *protocol.Measured
}

// Due reports whether the measurement should be read before a renewal at now, by a holder
// that has lived so long. Nobody reads it whose lease would not be longer for it.
func (r *Room) Due(t Timings, age, now time.Duration) bool {
	return t.Grown(age).Lease > t.TTL && (!r.read || now-r.at >= measureEvery)
}

// Asked notes that the measurement is read at now, whether or not that is answered.
func (r *Room) Asked(now time.Duration) { r.read, r.at = true, now }

// Learn takes over the pool's item. Leases grow while
//
//	2 × held + cooling + what Expect says is still to come ≤ size:
//
// if every holder dies at this moment and is replaced, all of them have a node ID again.
// Growth stops above that, and begins again when a tenth of the pool less is taken.
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

// Turn reports whether this holder, of those that read a measurement as old as the one
// that was learned, counts the pool's node IDs. chance is a number from 0 to 1. One in
// held holders does; where no count is valid, one in eight for each open group. As long
// as one of the poolmetric function is valid, none does.
func (r *Room) Turn(p protocol.PoolItem, now time.Time, skew time.Duration, chance float64) bool {
	if m := p.Measured; m.Fresh(now, skew) {
		return ByHolder(m) && now.Sub(m.At) >= turnAfter && chance*float64(max(m.Held, 1)) < 1
	}
	first, last := p.GroupsOpen()
	return chance*8*float64(last-first+1) < 1
}

// ByHolder reports whether a holder made the measurement, by how long it is valid.
func ByHolder(m *protocol.Measured) bool { return m.Valid == turnValid }

// Count returns the measurement of a holder that counted at a time.
func Count(held, cooling int, at time.Time) protocol.Measured {
	return protocol.Measured{Held: held, Cooling: cooling, At: at, Valid: turnValid}
}
