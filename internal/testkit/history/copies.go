package history

import (
	"fmt"
	"maps"
)

// copy records a copy of a running process.
func (c *Checker) copy(e Event) error {
	c.copies[e.Who] = c.first(e.Of)
	n := c.nodes[e.Node]
	if n == nil || e.Version < 1 || e.Version > int64(len(n.spans)) {
		return fmt.Errorf("process %d was copied with version %d, which never existed", e.Of, e.Version)
	}
	s := &n.spans[e.Version-1]
	s.copied, s.heir = max(s.copied, e.Until), 0
	s.made = max(s.made, e.Until)
	if s.unaware == nil {
		s.unaware = map[int]bool{}
	}
	s.unaware[e.Who], s.unaware[e.Of] = true, true
	return nil
}

// ask records what a copy or its original requests. If both request exactly the same
// milliseconds, the table cannot distinguish them, and they are copies of each other again,
// as docs/guarantees.md states. One of the two answers may be lost, so this does not depend
// on what they were told.
func (c *Checker) ask(e Event) {
	n := c.nodes[e.Node]
	if n == nil || e.Version < 1 || e.Version > int64(len(n.spans)) {
		return
	}
	s := &n.spans[e.Version-1]
	if s.copied == 0 || e.Until <= s.copied {
		return
	}
	if s.asked == nil {
		s.asked = map[int64]int{}
	}
	switch who, known := s.asked[e.Until]; {
	case !known:
		s.asked[e.Until] = e.Who
	case who != e.Who:
		s.copied = e.Until
		if s.may <= e.Until { // otherwise one of the two has been told of later milliseconds
			s.heir = 0
		}
		maps.DeleteFunc(s.asked, func(until int64, _ int) bool { return until <= s.copied })
	}
}

// first returns the process from which a copy was originally made, or the process itself.
func (c *Checker) first(who int) int {
	if of, ok := c.copies[who]; ok {
		return of
	}
	return who
}

// excused reports whether an ID may be made a second time. Only a process and its copy may
// repeat each other's IDs, and only within the reservation at the time of the copy.
func (c *Checker) excused(n *node, e Event, by int) bool {
	if n == nil || by == e.Who || c.first(by) != c.first(e.Who) {
		return false
	}
	for _, s := range n.spans {
		if s.who == c.first(e.Who) && s.notBefore < e.MS && e.MS <= s.copied {
			return true
		}
	}
	return false
}

// loose reports whether a stamp may come from a copy or its original after the other of the
// two released the version.
func (c *Checker) loose(n *node, e Event) bool {
	for _, s := range n.spans {
		if s.loose != 0 && s.who == c.first(e.Who) && s.notBefore < e.MS && e.MS <= s.loose {
			return true
		}
	}
	return false
}

// looseID reports whether loose is true for either of the two makers of an ID.
func (c *Checker) looseID(n *node, e Event, by int) bool {
	other := e
	other.Who = by
	return n != nil && (c.loose(n, e) || c.loose(n, other))
}

// believes reports whether a belief is judged. The belief of a copy or its original is not
// judged after the other of the two released the version.
func (c *Checker) believes(node int, version int64) bool {
	n := c.nodes[node]
	return n == nil || version < 1 || version > int64(len(n.spans)) || n.spans[version-1].loose == 0
}
