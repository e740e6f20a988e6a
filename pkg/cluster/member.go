package cluster

import (
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// NoNumber is the Number of a member that has no lease.
const NoNumber = -1

// Member is one session of one node.
type Member struct {
	// Cluster is the namespace: members of one do not see another's. With the
	// lease table it is the pool's name.
	Cluster string `json:"cluster"`
	// NodeID is the application's name of the node; it survives restarts.
	NodeID string `json:"node_id"`
	// Number is the leased number, NoNumber without a lease.
	Number int `json:"number"`
	// SessionID is a UUIDv7, new for each incarnation.
	SessionID string `json:"session_id"`
	// Version is the lease's; without a lease it grows by one with each session of
	// the node.
	Version int64 `json:"version"`
	// Heartbeat is a time at or before the last heartbeat, by the backend's clock.
	Heartbeat time.Time `json:"heartbeat"`
	// Metadata is what the member says of itself.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Same reports whether both are one session of one cluster: what states compare.
func (m Member) Same(o Member) bool { return m.Cluster == o.Cluster && m.SessionID == o.SessionID }

// Key names what Version counts for, as known versions have it: the number, or,
// without one, the node ID behind an "@".
func (m Member) Key() string {
	if m.Number == NoNumber {
		return "@" + m.NodeID
	}
	return strconv.Itoa(m.Number)
}

func (m Member) clone() Member {
	m.Metadata = maps.Clone(m.Metadata)
	return m
}

// newSession names an incarnation. Sessions order by when they began.
func newSession() string { return uuid.Must(uuid.NewV7()).String() }
