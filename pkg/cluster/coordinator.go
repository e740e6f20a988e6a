package cluster

import (
	"context"
	"slices"
	"time"
)

// Coordinator is the backend in which heartbeats are recorded. If you write your own,
// test it with clustertest.Conformance, which the coordinators of dynamocoordinator and
// pgcoordinator and, for tests, clustertest.Memory pass. A name without a lease has one
// record, in which a new session replaces the previous one. A node ID also has one
// record, whatever the name. A Coordinator is safe for concurrent use, and returns an
// error if the context has ended.
type Coordinator interface {
	// Heartbeat records that a session is alive and then returns the sessions whose last
	// heartbeat is within the time-out, in any order. It returns ErrDropped for a session
	// that was silent for longer than the time-out, and for one whose lease is older than
	// the one recorded.
	Heartbeat(ctx context.Context, b Beat) (Snapshot, error)
	// Expire forgets records without a heartbeat for longer than age, and the
	// publications under the same keys, however old. Membership never needs it; it
	// removes records of nodes that do not come back.
	Expire(ctx context.Context, cluster string, age time.Duration) error
	// Publish replaces the versions that a member knows, unless a later revision,
	// or a revision of a later version of that member, has been published: so a
	// publication that arrives late does not replace a newer one.
	Publish(ctx context.Context, m Member, revision int64, known Versions) error
	// Known returns the last publication of each member, by Member.Key.
	Known(ctx context.Context, cluster string) (map[string]Versions, error)
}

// Beat is one heartbeat.
type Beat struct {
	// Self is the sender. The backend sets its Heartbeat, and without a lease its
	// Version.
	Self Member
	// At is when the heartbeat was sent, by the sender's wall clock.
	At time.Time
	// Timeout is how old a heartbeat may be.
	Timeout time.Duration
	// Elect is the sender's elector; nil means LowestSession. A backend answers from
	// a copy only if it can confirm the member that Elect chooses, and never if that
	// is Self.
	Elect Elector
	// Oldest reports that Self has the lowest session in its last snapshot. A backend
	// may let this member read on behalf of all.
	Oldest bool
}

// Leader returns the member that Elect chooses from a snapshot, and whether it chooses
// one. It does not sort the members of an ordered snapshot.
func (b Beat) Leader(s Snapshot) (Member, bool) {
	state := State{members: s.Members, heard: s.Heard}
	if !s.Ordered {
		state.members = slices.CompactFunc(slices.SortedFunc(slices.Values(s.Members), bySession), Member.Same)
	}
	if b.Elect == nil {
		return LowestSession(state)
	}
	return b.Elect(state)
}

// Snapshot is the result of a heartbeat.
type Snapshot struct {
	// Members are the live members. The slice must not be changed: a backend that returns
	// the same one again reports that nothing has changed.
	Members []Member
	// Ordered says that Members are sorted by SessionID, each session once, which saves
	// the node from sorting a large cluster.
	Ordered bool
	// Heard is the Heartbeat of members without one of their own.
	Heard time.Time
	// Warning is an error that does not invalidate the answer.
	Warning error
}

// Versions are known versions, by Member.Key.
type Versions map[string]int64
