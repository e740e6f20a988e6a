package dynamocoordinator

import (
	"maps"
	"slices"
	"strings"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// edit is one change of an ordered list of members: a session is removed, added or
// replaced.
type edit struct {
	session string
	member  *cluster.Member // nil if the session is removed
}

// diff returns the edits that change one ordered list into another.
func diff(from, to []cluster.Member) (edits []edit) {
	for i, j := 0, 0; i < len(from) || j < len(to); {
		switch {
		case j == len(to) || i < len(from) && from[i].SessionID < to[j].SessionID:
			edits = append(edits, edit{from[i].SessionID, nil})
			i++
		case i == len(from) || from[i].SessionID > to[j].SessionID:
			edits = append(edits, edit{to[j].SessionID, &to[j]})
			j++
		default:
			if !equal(from[i], to[j]) {
				edits = append(edits, edit{to[j].SessionID, &to[j]})
			}
			i, j = i+1, j+1
		}
	}
	return edits
}

func bySession(a, b cluster.Member) int { return strings.Compare(a.SessionID, b.SessionID) }

func sessionOf(m cluster.Member, id string) int { return strings.Compare(m.SessionID, id) }

// equal reports whether a and b, which have the same session, are equal in every other
// field that parts contain.
func equal(a, b cluster.Member) bool {
	return a.Name == b.Name && a.NodeID == b.NodeID && a.Version == b.Version && maps.Equal(a.Metadata, b.Metadata)
}

// patch returns the list with the edits applied. The result is a new list, since readers
// may hold the old one; without edits it is the old list. If the edits both remove and
// add a session, the result contains it.
func patch(all []cluster.Member, edits []edit) []cluster.Member {
	if len(edits) == 0 {
		return all
	}
	slices.SortStableFunc(edits, func(a, b edit) int {
		if c := strings.Compare(a.session, b.session); c != 0 || (a.member == nil) == (b.member == nil) {
			return c
		} else if a.member == nil {
			return -1 // remove before adding
		}
		return 1
	})
	out := make([]cluster.Member, 0, len(all)+len(edits))
	for _, e := range edits {
		i, found := slices.BinarySearchFunc(all, e.session, sessionOf)
		out = append(out, all[:i]...)
		if all = all[i:]; found {
			all = all[1:]
		}
		if e.member != nil {
			if n := len(out); n > 0 && out[n-1].SessionID == e.session {
				out = out[:n-1] // two parts have the session
			}
			out = append(out, *e.member)
		}
	}
	return append(out, all...)
}
