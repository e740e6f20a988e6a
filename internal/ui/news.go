package ui

import (
	"fmt"
	"slices"
)

// news is one thing that happened.
type news struct {
	At     int64  `json:"at"` // ms of the Unix epoch
	Number int    `json:"n"`  // -1: about none
	Kind   string `json:"kind"`
	Text   string `json:"text"`
}

const (
	keptNews = 100
	// mostAlike is how many of a kind a turn may tell one by one: a fleet that
	// starts is one piece of news.
	mostAlike = 12
)

// merged makes one of many of a kind.
func merged(all []news) []news {
	kinds := map[string]int{}
	for _, n := range all {
		kinds[n.Kind]++
	}
	var short []news
	for _, n := range all {
		switch many := kinds[n.Kind]; {
		case many == 0: // told already
		case many <= mostAlike:
			short = append(short, n)
		default:
			short = append(short, news{Number: -1, Kind: n.Kind, Text: fmt.Sprintf("%d numbers at once", many)})
			kinds[n.Kind] = 0
		}
	}
	return short
}

// tell keeps news, and for the next turn's message.
func (s *Server) tell(n news) {
	s.fresh = append(s.fresh, n)
	if s.news = append(s.news, n); len(s.news) > keptNews {
		s.news = slices.Delete(s.news, 0, len(s.news)-keptNews)
	}
}
