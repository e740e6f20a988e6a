package tenure

import (
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Outlook is the result of a search of some of the open groups.
type Outlook struct {
	Free   int       // a node ID that could be claimed, -1 if there is none
	Usable int       // node IDs that are not retired
	Held   int       // of those, the ones with a live holder
	Groups int       // groups that were read
	Open   int       // groups that could have been read
	Newer  bool      // a node ID is marked for a widening that the claimant has not seen
	Next   time.Time // when the next node ID can be claimed if nobody renews
	Rests  []Rest    // node IDs that nobody renews: they rest, or their holders are overdue
}

// Add adds the leases of a group, and returns the node IDs that c could claim.
func (o *Outlook) Add(g protocol.Group, p protocol.PoolItem, c protocol.Claim) (free []int) {
	for _, l := range g.Leases {
		if l.Retired || l.NodeID < p.ExcludeBelow || l.NodeID >= p.Limit() {
			continue
		}
		o.Newer = o.Newer || l.WidenTry > c.WidenTry
		o.Usable++
		if _, ok := c.Apply(&l); ok {
			free = append(free, l.NodeID)
			continue
		}
		at := l.ReservedUntil.Add(-c.ClaimGuard)
		if l.Holder != "" {
			o.Held++
			at = protocol.Latest(at, l.ExpiresAt.Add(c.ClaimGuard))
		}
		o.Next = earliest(o.Next, at)
		// A holder renews when half of its lease is left, or, because of jitter, a little
		// later.
		if l.Holder == "" || l.ExpiresAt.Sub(c.At) < 2*l.TTL/5 {
			o.Rests = append(o.Rests, Rest{l.NodeID, at})
		}
	}
	return free
}

// Merge adds the result of reading one group.
func (o *Outlook) Merge(one Outlook) {
	o.Groups++
	o.Usable += one.Usable
	o.Next = earliest(o.Next, one.Next)
	o.Rests = append(o.Rests, one.Rests...)
}

// earliest returns the earlier of two times, ignoring a zero one.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Crowded reports whether at least 75 % of the usable node IDs are held. If so, the next
// group is opened before it is needed. Cooling node IDs are counted as room, since those of
// a newly opened group would cool for as long. So are node IDs of a narrow pool that are
// not seeded yet.
func (o Outlook) Crowded(narrow bool) bool {
	return 4*o.Held >= 3*o.Usable && (o.Usable > 0 || !narrow)
}
