package cluster

import (
	"iter"
	"slices"
	"strings"
)

// State is who was alive as of one heartbeat of the observer. It never changes,
// and the same members give the same state, in the same order: by session, the
// oldest first. The zero State has nobody.
type State struct {
	members []Member
}

// newState orders members. The observer is alive, whatever the backend has heard:
// the lease may still say the session before.
func newState(self Member, members []Member) State {
	all := make([]Member, 0, len(members)+1)
	for _, m := range members {
		if m.Key() != self.Key() {
			all = append(all, m)
		}
	}
	all = append(all, self)
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.SessionID, b.SessionID) })
	return State{members: slices.CompactFunc(all, Member.Same)}
}

// Len is how many members there are.
func (s State) Len() int { return len(s.members) }

// Members goes through the members, the oldest session first.
func (s State) Members() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, m := range s.members {
			if !yield(m.clone()) {
				return
			}
		}
	}
}

// Member finds a session.
func (s State) Member(sessionID string) (Member, bool) {
	i, found := slices.BinarySearchFunc(s.members, sessionID, func(m Member, id string) int { return strings.Compare(m.SessionID, id) })
	if !found {
		return Member{}, false
	}
	return s.members[i].clone(), true
}

// Equal reports whether both have the same members: the same sessions of the same
// cluster. Heartbeat times and metadata do not count.
func (s State) Equal(o State) bool { return slices.EqualFunc(s.members, o.members, Member.Same) }

// versions is what a member with this state knows.
func (s State) versions() Versions {
	v := make(Versions, len(s.members))
	for _, m := range s.members {
		v[m.Key()] = max(v[m.Key()], m.Version)
	}
	return v
}
