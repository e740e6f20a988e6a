package cluster

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// NoNodeID is the NodeID of a member that has no lease.
const NoNodeID = -1

// Member is one session of one node.
type Member struct {
	// Cluster is the namespace: members of different clusters do not see each other. With the
	// lease table it is the pool's name.
	Cluster string `json:"cluster"`
	// Name is the name that the application gave the node; it stays the same across
	// restarts.
	Name string `json:"name"`
	// NodeID is the leased node ID; without a lease, it is NoNodeID.
	NodeID int `json:"node_id"`
	// SessionID is a UUIDv7; each incarnation has a new one.
	SessionID string `json:"session_id"`
	// Version is the lease's version; without a lease, it grows by one with each
	// session of the node.
	Version int64 `json:"version"`
	// Heartbeat is the time of the last heartbeat, or an earlier time, by the backend's
	// clock.
	Heartbeat time.Time `json:"heartbeat"`
	// Metadata is the member's description of itself.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Same reports whether m and o are the same session of the same cluster.
// State.Equal compares members with Same.
func (m Member) Same(o Member) bool { return m.Cluster == o.Cluster && m.SessionID == o.SessionID }

// Key returns the key of the member's Version in Versions: the node ID or, without a
// lease, the name after an "@".
func (m Member) Key() string {
	if m.NodeID == NoNodeID {
		return "@" + m.Name
	}
	return strconv.Itoa(m.NodeID)
}

// MemberOf returns the member that holds a lease, if the holder takes part in a
// cluster. The caller decides whether the member's heartbeat is recent.
func MemberOf(l lease.Lease) (Member, bool) {
	m := Member{
		Cluster: l.Pool, Name: l.Metadata[metaNode], NodeID: l.NodeID, SessionID: l.Metadata[metaSession], Version: l.Version,
		Heartbeat: l.ExpiresAt.Add(-l.TTL), Metadata: said(l.Metadata),
	}
	return m, l.Holder != "" && m.SessionID != "" && m.Validate() == nil
}

// said returns the metadata of a lease without the entries that a cluster node adds.
func said(metadata map[string]string) map[string]string {
	var rest map[string]string
	for name, value := range metadata {
		if name != metaNode && name != metaSession {
			if rest == nil {
				rest = map[string]string{}
			}
			rest[name] = value
		}
	}
	return rest
}

// Bounds of a member's fields, checked on reading and on writing.
const (
	maxName     = 128
	maxSession  = 64
	maxVersion  = 1 << 53
	maxMetadata = 512 // in bytes, for a member without a lease; a lease has its own bound
	maxLeased   = 1024
)

// Validate returns an error for a member that no node writes: a name or session that is
// empty, too long or not printable, metadata that are too long, or a node ID or version
// out of bounds. A backend to which other programs can write leaves out members that are
// not valid.
func (m Member) Validate() error {
	text, most := 0, maxMetadata
	for name, value := range m.Metadata {
		text += len(name) + len(value)
	}
	if m.NodeID != NoNodeID {
		most = maxLeased
	}
	switch {
	case m.Name == "" || len(m.Name) > maxName || !printable(m.Name):
		return fmt.Errorf("name %.80q: use 1 to %d bytes of printable characters", m.Name, maxName)
	case m.SessionID == "" || len(m.SessionID) > maxSession || !printable(m.SessionID):
		return fmt.Errorf("session %.80q of %q is not a session", m.SessionID, m.Name)
	case m.NodeID < NoNodeID || m.NodeID >= protocol.MaxPoolSize:
		return fmt.Errorf("node ID %d of %q is out of bounds", m.NodeID, m.Name)
	case m.Version < 0 || m.Version > maxVersion:
		return fmt.Errorf("version %d of %q is out of bounds", m.Version, m.Name)
	case text > most:
		return fmt.Errorf("metadata of %q has %d bytes, at most %d", m.Name, text, most)
	}
	return nil
}

// printable reports whether a text is one line of UTF-8 without invisible characters.
func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func (m Member) clone() Member {
	m.Metadata = maps.Clone(m.Metadata)
	return m
}

// newSession returns the SessionID of a new incarnation. SessionIDs sort by the time at
// which the sessions began.
func newSession() string { return uuid.Must(uuid.NewV7()).String() }
