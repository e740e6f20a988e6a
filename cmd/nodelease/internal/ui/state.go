package ui

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
)

// States in which a node ID may be shown, in addition to those of [lease.State].
const (
	corrupt lease.State = "corrupt" // its item is unreadable: see its note
	missing lease.State = "missing" // it has no item, since it was not seeded
)

// states orders the counts of a group; the page has the same order.
var states = []lease.State{lease.Held, lease.Free, lease.Cooling, lease.Expired, lease.Retired, corrupt, missing}

// counts are how many node IDs are in each of states.
type counts [7]int

func (c *counts) add(s lease.State, by int) { c[slices.Index(states, s)] += by }

func (c counts) of(s lease.State) int { return c[slices.Index(states, s)] }

// number is one node ID as the page shows it. Times are milliseconds of the Unix
// epoch; 0 is none.
type number struct {
	ID    int         `json:"n"`
	State lease.State `json:"state"`
	Task  string      `json:"task,omitempty"`
	// Held reports that it has a holder, expired or not. Of its session only the
	// end leaves the program: the full session would be enough to release its
	// lease.
	Held     bool              `json:"held,omitempty"`
	OnDemand bool              `json:"on_demand,omitempty"` // it renews only when it uses the node ID
	Session  string            `json:"session,omitempty"`
	holder   string            // the whole session
	Previous *previous         `json:"previous,omitempty"`
	Since    int64             `json:"since,omitempty"` // when its session began
	Version  int64             `json:"version,omitempty"`
	Renewal  int64             `json:"renewal,omitempty"`
	TTL      int64             `json:"ttl,omitempty"`
	Expires  int64             `json:"expires,omitempty"`
	Reserved int64             `json:"reserved,omitempty"`
	IDs      int64             `json:"ids,omitempty"`   // until when its holder can make IDs without DynamoDB
	Grown    bool              `json:"grown,omitempty"` // its lease is longer than a new one's, and may be renewed late
	Metadata map[string]string `json:"meta,omitempty"`
	Note     string            `json:"note,omitempty"`
	member   *cluster.Member   // nil: the holder takes part in no cluster
}

// previous is the holder before, as the page shows it.
type previous struct {
	Session string       `json:"session"`
	Version int64        `json:"version"`
	Ended   lease.Ending `json:"ended"`
	Since   int64        `json:"since,omitempty"`
}

// shown is as much of a session as may be shown: enough to compare it with
// another, too little to act in its name.
func shown(session string) string {
	if short := text.Session(session); short != session {
		return text.Line(short)
	}
	return "…"
}

// mostMetadata is how many entries of a holder's metadata are shown.
const mostMetadata = 32

// lines makes metadata fit to be shown. A holder chooses it freely, up to the size of an
// item of DynamoDB.
func lines(metadata map[string]string) map[string]string {
	shown := make(map[string]string, min(len(metadata), mostMetadata))
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		if len(shown) == mostMetadata {
			break
		}
		value := metadata[k]
		if k == "session_id" { // of a cluster's node
			value = text.Session(value)
		}
		shown[text.Line(k)] = text.Line(value)
	}
	return shown
}

// beat is a renewal: all that changes about a node ID most of the time.
type beat [5]int64

func (n *number) beat() beat { return beat{int64(n.ID), n.Expires, n.Reserved, n.Renewal, n.IDs} }

// show makes a number of an item, as of when it was read.
func show(l lease.Lease, pool protocol.PoolItem, at time.Time) number {
	n := number{
		ID: l.NodeID, State: l.State(at), Version: l.Version, Reserved: millis(l.ReservedUntil),
	}
	if p := l.Predecessor(); p != nil {
		n.Previous = &previous{shown(p.Session), p.Version, p.Ended, began(p.Session)}
	}
	if l.Holder != "" {
		n.Held, n.OnDemand, n.holder, n.Session = true, l.OnDemand, l.Holder, shown(l.Holder)
		n.Task, n.Renewal, n.TTL, n.Metadata = text.Line(l.Task), l.Renewal, l.TTL.Milliseconds(), lines(l.Metadata)
		n.Expires, n.Since, n.IDs, n.Grown = millis(l.ExpiresAt), began(l.Holder), millis(l.IDsUntil()), grown(l, pool)
		if m, ok := cluster.MemberOf(l); ok {
			n.member = &m
		}
	}
	switch {
	case l.NodeID < pool.ExcludeBelow:
		n.State, n.Note = lease.Retired, "reserved: never leased"
	case l.NodeID >= pool.Size: // also before a resize has come to it
		n.State, n.Note = lease.Retired, "the pool was made smaller"
	}
	return n
}

// began is when a session began: its name is a UUIDv7, new for every claim.
func began(session string) int64 {
	id, err := uuid.Parse(session)
	if err != nil || id.Version() != 7 {
		return 0
	}
	s, ns := id.Time().UnixTime()
	return s*1000 + ns/1e6
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// grown reports whether a lease looks like one that has grown: much more is reserved
// than it needs itself, which in a narrow pool is never so.
func grown(l lease.Lease, pool protocol.PoolItem) bool {
	return l.TTL > lease.DefaultTTL && (l.ReservedUntil.Sub(l.ExpiresAt) > l.TTL/2 || pool.Narrow())
}

// low reports whether a holder is late: a healthy one renews while more than two
// fifths of its lease are left, of a grown one that comes back from an outage more than
// three tenths. A sleeping holder on demand lets its lease run out.
// Where leases may no longer grow, waits is the length that a grown one is renewed
// with: its holder sends nothing before only that is left, and is not late. Else
// waits is 0.
func (n *number) low(at time.Time, waits int64) bool {
	least := n.TTL * 2 / 5
	switch {
	case n.Grown && waits > 0:
		least = min(n.TTL, waits) * 2 / 5
	case n.Grown:
		least = n.TTL * 3 / 10
	}
	return n.Held && !n.OnDemand && n.TTL > 0 && n.Expires-at.UnixMilli() < least
}
