package cluster

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// State holds the members that were alive as of one heartbeat of the observer, which is
// the node that returned the State. A State never changes. Its members are sorted by
// session, the oldest first, so the same members always result in the same state. The
// zero State is empty.
type State struct {
	members []Member
	heard   time.Time // the Heartbeat of members whose own is zero
}

// newState returns the state of a snapshot, and sets self to the snapshot's data about
// the observer's session, if there is any. The observer is always in the state, even if
// the backend still has its previous session. If the members are already in order, and
// the observer's session is among them as the only one of its node, newState uses their
// slice as it is. In a cluster of tens of thousands of members, copying and sorting them
// would take longer than everything else.
func newState(self *Member, snap Snapshot) State {
	if i, found := slices.BinarySearchFunc(snap.Members, self.SessionID, sessionOf); snap.Ordered && found && snap.Members[i].Same(*self) {
		*self = snap.Members[i]
		if countOf(*self, snap.Members) == 1 {
			return State{members: snap.Members}
		}
	}
	all := make([]Member, 0, len(snap.Members)+1)
	for _, m := range snap.Members {
		if m.Same(*self) {
			*self = m
		} else if !sameNode(m, *self) {
			all = append(all, m)
		}
	}
	all = append(all, *self)
	slices.SortFunc(all, bySession)
	return State{members: slices.CompactFunc(all, Member.Same)}
}

func bySession(a, b Member) int { return strings.Compare(a.SessionID, b.SessionID) }

func sessionOf(m Member, id string) int { return strings.Compare(m.SessionID, id) }

// sameNode reports whether a and b have the same Member.Key, without building the keys.
func sameNode(a, b Member) bool {
	return a.NodeID == b.NodeID && (a.NodeID != NoNodeID || a.Name == b.Name)
}

// countOf returns the number of members that are sessions of m's node.
func countOf(m Member, members []Member) (n int) {
	for i := range members {
		if members[i].NodeID == m.NodeID && sameNode(members[i], m) {
			n++
		}
	}
	return n
}

// sameSlice reports whether a and b are the same slice, which means that nothing has
// changed.
func sameSlice(a, b []Member) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}

// filled returns a copy of a member, with its Heartbeat filled in, that a caller may
// change.
func (s State) filled(m Member) Member {
	if m = m.clone(); m.Heartbeat.IsZero() {
		m.Heartbeat = s.heard
	}
	return m
}

// Len returns the number of members.
func (s State) Len() int { return len(s.members) }

// Members yields the members, the oldest session first.
func (s State) Members() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, m := range s.members {
			if !yield(s.filled(m)) {
				return
			}
		}
	}
}

// Member returns the member with a session, and whether it is in the state.
func (s State) Member(sessionID string) (Member, bool) {
	i, found := slices.BinarySearchFunc(s.members, sessionID, sessionOf)
	if !found {
		return Member{}, false
	}
	return s.filled(s.members[i]), true
}

// Equal reports whether s and o have the same members, that is, the same sessions of the
// same cluster. It ignores heartbeat times and metadata.
func (s State) Equal(o State) bool {
	return sameSlice(s.members, o.members) || slices.EqualFunc(s.members, o.members, Member.Same)
}

// versions returns the versions that a member with this state knows.
func (s State) versions() Versions {
	v := make(Versions, len(s.members))
	for _, m := range s.members {
		v[m.Key()] = max(v[m.Key()], m.Version)
	}
	return v
}
