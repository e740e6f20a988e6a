package cluster

import (
	"context"
	"slices"
	"time"
)

// Coordinator is the backend in which heartbeats are recorded. If you write your own,
// test it with clustertest.Conformance, which the coordinators of dynamocoordinator and
// pgcoordinator and, for tests, clustertest.Memory pass. There is one record for each
// node ID, whatever the name of its holder, and one for each name of a member without a
// lease. In a record, a new session replaces the previous one. A Coordinator is safe for
// concurrent use, and returns an error if the context has ended.
type Coordinator interface {
	// Heartbeat records that a session is alive and then returns the sessions whose last
	// heartbeat is within the time-out, in any order. They include Self; otherwise, the
	// heartbeat has failed. It returns ErrDropped for a session that was silent for longer
	// than the time-out, or whose lease is older than the lease in the record, unless that
	// record has had no heartbeat for MaxClockBack.
	Heartbeat(ctx context.Context, b Beat) (Snapshot, error)
	// Expire forgets records whose last heartbeat is older than age, and the publications
	// under the same keys, whatever their age. It only removes records of nodes that do
	// not come back: membership does not depend on Expire.
	Expire(ctx context.Context, cluster string, age time.Duration) error
	// Publish replaces the versions that a member has published, unless the stored
	// publication has a later revision or is by a later version of the member. So a
	// publication that arrives late does not replace a newer one.
	Publish(ctx context.Context, m Member, revision int64, known Versions) error
	// Known returns the last publication of each member, by Member.Key.
	Known(ctx context.Context, cluster string) (map[string]Versions, error)
}

// MaxClockBack is the longest time by which a heartbeat may be late. If a heartbeat is
// older than the recorded one by more than that, the recorded one was sent while a clock
// was ahead.
const MaxClockBack = 5 * time.Minute

// Beat is one heartbeat.
type Beat struct {
	// Self is the sender. The backend sets Heartbeat and, if Self has no lease, Version.
	Self Member
	// At is when the heartbeat was sent, by the sender's wall clock. If this clock was set
	// back by at most MaxClockBack, At stays the same until the clock has caught up; only a
	// new session begins a millisecond later.
	At time.Time
	// Timeout is how old a heartbeat may be.
	Timeout time.Duration
	// Elect is the sender's elector; nil means LowestSession. A backend answers from a
	// copy only if it can confirm that the member that Elect chooses is alive, and never
	// if Elect chooses Self.
	Elect Elector
	// Oldest reports that Self has the lowest session in its last snapshot. A backend
	// may let this member read on behalf of all.
	Oldest bool
}

// Leader returns the member that Elect chooses from a snapshot, and whether Elect chooses
// one. Leader does not sort the members of an ordered snapshot.
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
	// Members are the live members. The slice must not be changed: if a backend returns
	// the same slice again, this means that nothing has changed.
	Members []Member
	// Ordered reports that Members are sorted by SessionID and contain each session once,
	// so that the node need not sort a large cluster.
	Ordered bool
	// Heard is the Heartbeat of members whose own Heartbeat is zero.
	Heard time.Time
	// Warning is an error to log. Members are valid all the same.
	Warning error
}

// has reports whether a member is in the snapshot.
func (s Snapshot) has(m Member) bool {
	if s.Ordered {
		i, found := slices.BinarySearchFunc(s.Members, m.SessionID, sessionOf)
		return found && s.Members[i].Same(m)
	}
	return slices.ContainsFunc(s.Members, m.Same)
}

// Versions are the versions that a member knows, by the Member.Key of each member.
type Versions map[string]int64
