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

// These are states in which a node ID may be shown, in addition to those of [lease.State].
const (
	corrupt lease.State = "corrupt" // its item is unreadable: see its note
	missing lease.State = "missing" // it has no item, since it was not seeded
)

// reserved is the note of the node IDs below ExcludeBelow.
const reserved = "reserved: never leased"

// states lists the states in the order of counts; the page uses the same order.
var states = []lease.State{lease.Held, lease.Free, lease.Cooling, lease.Expired, lease.Retired, corrupt, missing}

// counts contains the number of node IDs in each of states.
type counts [7]int

func (c *counts) add(s lease.State, by int) { c[slices.Index(states, s)] += by }

func (c counts) of(s lease.State) int { return c[slices.Index(states, s)] }

// nodeID is one node ID as the page shows it. Times are milliseconds since the Unix
// epoch; 0 means that there is none.
type nodeID struct {
	ID    int         `json:"n"`
	State lease.State `json:"state"`
	Task  string      `json:"task,omitempty"`
	// Held reports that the node ID has a holder, expired or not. Only the last characters
	// of the session leave the program, because the full session would be enough to
	// release the lease.
	Held     bool              `json:"held,omitempty"`
	OnDemand bool              `json:"on_demand,omitempty"` // the holder renews only when it uses the node ID
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

// previous is the previous holder, as the page shows it.
type previous struct {
	Session string       `json:"session"`
	Version int64        `json:"version"`
	Ended   lease.Ending `json:"ended"`
	Since   int64        `json:"since,omitempty"`
}

// shown returns as much of a session as may be shown: enough to compare it with another
// session, but too little to act in its name.
func shown(session string) string {
	if short := text.Session(session); short != session {
		return text.Line(short)
	}
	return "…"
}

// mostMetadata is how many entries of a holder's metadata are shown.
const mostMetadata = 32

// lines prepares metadata to be shown: it limits the number of entries and sanitizes them,
// since a holder can write any metadata, up to the size of a DynamoDB item.
func lines(metadata map[string]string) map[string]string {
	shown := make(map[string]string, min(len(metadata), mostMetadata))
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		if len(shown) == mostMetadata {
			break
		}
		value := metadata[k]
		if k == "session_id" { // the session of a cluster node
			value = text.Session(value)
		}
		shown[text.Line(k)] = text.Line(value)
	}
	return shown
}

// beat is a renewal. It contains only the values that a renewal changes, because most
// changes are renewals.
type beat [5]int64

func (n *nodeID) beat() beat { return beat{int64(n.ID), n.Expires, n.Reserved, n.Renewal, n.IDs} }

// show returns a node ID as the page shows it, from its item and the time of the read.
func show(l lease.Lease, pool protocol.PoolItem, at time.Time) nodeID {
	n := nodeID{
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
		n.State, n.Note = lease.Retired, reserved
	case l.NodeID >= pool.Size: // even if the resize has not marked it yet
		n.State, n.Note = lease.Retired, "the pool was made smaller"
	}
	return n
}

// began returns when a session began. A session is a UUIDv7, made for each claim, so it
// contains the time.
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

// grown reports whether a lease has probably grown: it is longer than the default, and much
// more time is reserved than the lease needs. In a narrow pool, where even grown leases
// reserve little time, only the length of the lease decides.
func grown(l lease.Lease, pool protocol.PoolItem) bool {
	return l.TTL > lease.DefaultTTL && (l.ReservedUntil.Sub(l.ExpiresAt) > l.TTL/2 || pool.Narrow())
}

// low reports whether a holder is late. A healthy holder renews while more than two fifths
// of its lease are left. After an outage, the holder of a grown lease renews while more
// than three tenths are left. A holder on demand is never late, because it lets its lease
// run out while it sleeps.
//
// If leases may no longer grow, waits is the length with which a grown lease is renewed.
// The holder of a grown lease then sends nothing until no more than waits is left, and is
// not late before. If leases may grow, waits is 0.
func (n *nodeID) low(at time.Time, waits int64) bool {
	least := n.TTL * 2 / 5
	switch {
	case n.Grown && waits > 0:
		least = min(n.TTL, waits) * 2 / 5
	case n.Grown:
		least = n.TTL * 3 / 10
	}
	return n.Held && !n.OnDemand && n.TTL > 0 && n.Expires-at.UnixMilli() < least
}
