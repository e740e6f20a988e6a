package ui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nodelease/nodelease/pkg/lease"
)

// filter is a search: every word of it has to match.
type filter []word

// word is one word of a search. With a key it is compared with one property: state, task,
// version, node or session, or the metadata with that name. Without a key it is compared
// with all of them.
type word struct {
	text  string // in lower case
	key   string // empty without "="
	value string
	waits int64 // see [model.waits]
}

// parse reads a search such as: state=held zone=eu-west-1a "two words".
func parse(query string) (f filter) {
	for _, text := range fields(strings.ToLower(query)) {
		w := word{text: text}
		if k, v, ok := strings.Cut(text, "="); ok && k != "" {
			w.key, w.value = k, v
		}
		f = append(f, w)
	}
	return f
}

// fields splits a search into words. Inside double quotes, spaces belong to the word.
func fields(query string) (words []string) {
	var b strings.Builder
	quoted := false
	end := func() {
		if b.Len() > 0 {
			words = append(words, b.String())
		}
		b.Reset()
	}
	for _, r := range query {
		switch {
		case r == '"':
			quoted = !quoted
		case unicode.IsSpace(r) && !quoted:
			end()
		default:
			b.WriteRune(r)
		}
	}
	end()
	return words
}

// matches reports whether every word matches a node ID.
func (f filter) matches(n *nodeID) bool {
	for _, w := range f {
		if !w.matches(n) {
			return false
		}
	}
	return true
}

func (w word) matches(n *nodeID) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), w.text) }
	switch w.key {
	case "state":
		if w.value == "late" {
			return n.State == lease.Held && n.low(time.Now(), w.waits)
		}
		return strings.HasPrefix(string(n.State), w.value)
	case "task":
		return n.Held && strings.Contains(strings.ToLower(n.Task), w.value)
	case "version":
		// Metadata named version, such as a build's, is searched for more often than the
		// version of a lease.
		return strconv.FormatInt(n.Version, 10) == w.value || n.metadata(w.text)
	case "node":
		return strconv.Itoa(n.ID) == w.value
	case "session":
		return n.isSession(w.value)
	}
	return strconv.Itoa(n.ID) == w.text || has(n.Task) || n.isSession(w.text) || strings.HasPrefix(string(n.State), w.text) || n.metadata(w.text)
}

// isSession reports whether a text is the whole session or the part that is shown. Other
// parts never match, because such matches could be used to guess the session.
func (n *nodeID) isSession(text string) bool {
	return n.Held && text != "" && (text == strings.ToLower(n.holder) || text == strings.ToLower(strings.TrimPrefix(n.Session, "…")))
}

func (n *nodeID) metadata(text string) bool {
	for k, v := range n.Metadata {
		if strings.Contains(strings.ToLower(k+"="+v), text) {
			return true
		}
	}
	return false
}

// find lists the node IDs that match, those with a holder first. An empty search
// lists the holders.
func (m *model) find(query string) (found []*nodeID) {
	found = []*nodeID{} // never null in JSON
	f := parse(query)
	waits := m.waits(time.Now())
	for i := range f {
		f[i].waits = waits
	}
	for g := range m.groups {
		for i := range m.groups[g].nodeIDs {
			n := &m.groups[g].nodeIDs[i]
			if len(f) == 0 && !n.Held {
				continue
			}
			if f.matches(n) {
				found = append(found, n)
			}
		}
	}
	id := strings.TrimSpace(query)
	rank := func(n *nodeID) int {
		switch {
		case strconv.Itoa(n.ID) == id:
			return 0
		case n.Held:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(found, func(a, b *nodeID) int { return rank(a) - rank(b) })
	return found
}

// order sorts node IDs by a column; a minus sign reverses the order. Node IDs without a
// value come last in both directions.
func order(found []*nodeID, by string) {
	by, down := strings.CutPrefix(by, "-")
	column := map[string]func(n *nodeID) (int64, string, bool){
		"n":       func(n *nodeID) (int64, string, bool) { return int64(n.ID), "", true },
		"state":   func(n *nodeID) (int64, string, bool) { return int64(slices.Index(states, n.State)), "", true },
		"task":    func(n *nodeID) (int64, string, bool) { return 0, n.Task, n.Task != "" },
		"since":   func(n *nodeID) (int64, string, bool) { return n.Since, "", n.Since != 0 },
		"expires": func(n *nodeID) (int64, string, bool) { return n.Expires, "", n.Expires != 0 },
		"version": func(n *nodeID) (int64, string, bool) { return n.Version, "", n.Version != 0 },
	}[by]
	if column == nil {
		return // unsorted
	}
	slices.SortStableFunc(found, func(a, b *nodeID) int {
		x, s, hasA := column(a)
		y, t, hasB := column(b)
		if hasA != hasB {
			if hasA {
				return -1
			}
			return 1
		}
		c := cmp.Or(cmp.Compare(x, y), natural(s, t))
		if down {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.ID, b.ID))
	})
}

// natural compares texts so that api/9 comes before api/10.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			na, nb := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(cmp.Compare(len(na), len(nb)), strings.Compare(na, nb)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns how many digits a text begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
