package ui

import (
	"slices"
	"strconv"
	"strings"
)

// find lists numbers by what is known of them: the number itself, or a part of
// task, session, state or metadata. Those that somebody holds come first.
func (m *model) find(query string) (found []*number) {
	found = []*number{} // never null in JSON
	query = strings.ToLower(strings.TrimSpace(query))
	for g := range m.groups {
		for i := range m.groups[g].numbers {
			if n := &m.groups[g].numbers[i]; n.matches(query) {
				found = append(found, n)
			}
		}
	}
	rank := func(n *number) int {
		switch {
		case strconv.Itoa(n.ID) == query:
			return 0
		case n.Holder != "":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(found, func(a, b *number) int { return rank(a) - rank(b) })
	return found
}

// matches tells whether a number is meant by a query in lower case.
func (n *number) matches(query string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), query) }
	if query == "" || strconv.Itoa(n.ID) == query || has(n.Task) || has(n.Holder) || strings.HasPrefix(string(n.State), query) {
		return true
	}
	for k, v := range n.Metadata {
		if has(k + "=" + v) {
			return true
		}
	}
	return false
}
