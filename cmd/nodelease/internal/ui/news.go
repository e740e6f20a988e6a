package ui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// news is one thing that happened.
type news struct {
	At     int64  `json:"at"` // ms of the Unix epoch
	NodeID int    `json:"n"`  // the node ID that it concerns; -1: none
	Kind   string `json:"kind"`
	Text   string `json:"text"`
}

const (
	keptNews = 100
	// mostAlike is how many news items of one kind a turn may report one by one. If there
	// are more, as when a fleet starts, they are merged into one item.
	mostAlike = 12
)

// merged replaces many news items of the same kind by one item.
func merged(all []news) []news {
	kinds := map[string]int{}
	for _, n := range all {
		kinds[n.Kind]++
	}
	var short []news
	for _, n := range all {
		switch many := kinds[n.Kind]; {
		case many == 0: // already merged
		case many <= mostAlike:
			short = append(short, n)
		default:
			short = append(short, news{NodeID: -1, Kind: n.Kind, Text: fmt.Sprintf("%d node IDs at once", many)})
			kinds[n.Kind] = 0
		}
	}
	return short
}

// mostKept bounds the history: about 4 MB.
const mostKept = 20_000

// log is the history: all news, the oldest first.
type log []news

// keep adds news to the history.
func (s *Server) keep(n news) {
	if s.kept = append(s.kept, n); len(s.kept) > mostKept+mostKept/10 { // the slack makes the deletion rare
		s.kept = slices.Delete(s.kept, 0, len(s.kept)-mostKept)
	}
}

// find lists the newest events that match every word of a query. A word such as node=7,
// task=api or kind=expired is compared with one property. Any other word matches a node ID
// if it is a number, and otherwise the beginning of a kind or a part of the text. Total is
// the number of all events that match.
func (l log) find(query string, most int) (found []news, total int) {
	found = []news{} // never null in JSON
	words := parse(query)
	for _, n := range slices.Backward(l) {
		if !n.matches(words) {
			continue
		}
		if total++; len(found) < most {
			found = append(found, n)
		}
	}
	return found, total
}

func (n news) matches(f filter) bool {
	for _, w := range f {
		if !n.matchesWord(w) {
			return false
		}
	}
	return true
}

func (n news) matchesWord(w word) bool {
	kind := func(s string) bool { return strings.HasPrefix(strings.ToLower(n.Kind), s) }
	told := func(s string) bool { return strings.Contains(strings.ToLower(n.Text), s) }
	switch w.key {
	case "node":
		return strconv.Itoa(n.NodeID) == w.value
	case "kind":
		return kind(w.value)
	case "task":
		return told(w.value)
	}
	if _, err := strconv.Atoi(w.text); err == nil {
		return strconv.Itoa(n.NodeID) == w.text
	}
	return kind(w.text) || told(w.text)
}

// tell adds news to the page's list and to the next turn's message.
func (s *Server) tell(n news) {
	s.fresh = append(s.fresh, n)
	if s.news = append(s.news, n); len(s.news) > keptNews {
		s.news = slices.Delete(s.news, 0, len(s.news)-keptNews)
	}
}
