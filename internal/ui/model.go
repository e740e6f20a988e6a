package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// model is what was read last of every group, and what that means.
type model struct {
	pool   protocol.PoolItem
	groups []group
	total  counts
	churn  churn // since the last turn
}

// group is one group as it was read last.
type group struct {
	readAt  time.Time
	numbers []number // by number, from the group's first
	counts  counts
}

// churn counts how numbers changed hands.
type churn struct{ claimed, ended int }

// change is what one turn changed.
type change struct {
	numbers map[int][]*number // by group: those of which more changed than a renewal
	beats   map[int][]beat    // by group: renewals
	groups  map[int]counts    // those whose counts changed
	news    []news
}

func newChange() *change {
	return &change{numbers: map[int][]*number{}, beats: map[int][]beat{}, groups: map[int]counts{}}
}

// read takes in what a group was read as.
func (m *model) read(index int, got protocol.Group, at time.Time, c *change) {
	for len(m.groups) <= index {
		m.groups = append(m.groups, group{})
	}
	g := &m.groups[index]
	first := g.readAt.IsZero()
	now := m.show(index, got, at)
	for i := range now {
		n := &now[i]
		if i >= len(g.numbers) {
			c.numbers[index] = append(c.numbers[index], n)
			continue
		}
		old := &g.numbers[i]
		if !first {
			m.compare(old, n, c)
		}
		switch {
		case !same(old, n):
			c.numbers[index] = append(c.numbers[index], n)
		case old.beat() != n.beat():
			c.beats[index] = append(c.beats[index], n.beat())
		}
	}
	var sum counts
	for i := range now {
		sum.add(now[i].State, 1)
	}
	if sum != g.counts || first {
		c.groups[index] = sum
	}
	for i := range sum {
		m.total[i] += sum[i] - g.counts[i]
	}
	*g = group{readAt: at, numbers: now, counts: sum}
}

// show lays a group's items out by their numbers. One that should have an item
// and has none is shown as missing.
func (m *model) show(index int, got protocol.Group, at time.Time) []number {
	from := index * protocol.GroupSize
	size := min(m.pool.Size-from, protocol.GroupSize)
	for _, l := range got.Leases {
		size = max(size, l.NodeID-from+1)
	}
	for _, c := range got.Corrupt {
		size = max(size, c.NodeID-from+1)
	}
	numbers := make([]number, max(size, 0))
	for i := range numbers {
		numbers[i] = number{ID: from + i, State: missing}
	}
	for _, l := range got.Leases {
		numbers[l.NodeID-from] = show(l, m.pool, at)
	}
	for _, c := range got.Corrupt {
		numbers[c.NodeID-from] = number{ID: c.NodeID, State: corrupt, Note: c.Err.Error()}
	}
	return numbers
}

// same tells whether two readings of a number differ by a renewal at most.
func same(a, b *number) bool {
	return a.State == b.State && a.Holder == b.Holder && a.Version == b.Version && a.Task == b.Task && a.Note == b.Note && a.TTL == b.TTL && maps.Equal(a.Metadata, b.Metadata)
}

// compare tells what happened to a number between two readings.
func (m *model) compare(old, n *number, c *change) {
	say := func(kind, format string, args ...any) {
		c.news = append(c.news, news{Number: n.ID, Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	if by := n.Version - old.Version; by > 0 && old.State != corrupt {
		m.churn.claimed += int(by)
	}
	if old.Holder != "" && old.Holder != n.Holder && n.State != corrupt {
		m.churn.ended++
	}
	switch {
	case n.State == corrupt && old.State != corrupt:
		say("corrupt", "its item cannot be read")
	case n.Holder != "" && n.Holder != old.Holder:
		say("claimed", "%s, v%d", n.Task, n.Version)
	case old.Holder != "" && n.Holder == "" && old.State == lease.Expired:
		say("reaped", "was %s’s", old.Task)
	case old.Holder != "" && n.Holder == "":
		say("released", "by %s", old.Task)
	case old.State == lease.Held && n.State == lease.Expired:
		say("expired", "%s stopped renewing", n.Task)
	case old.State == lease.Expired && n.State == lease.Held:
		say("resumed", "%s renews again", n.Task)
	case old.State == missing && n.State != missing:
		say("seeded", "a new number")
	case n.State == lease.Retired && old.State != lease.Retired:
		say("retired", "out of use")
	case old.State == lease.Retired && n.State != lease.Retired:
		say("restored", "back in use")
	}
}

// late lists the holders whose leases run low, the most urgent first.
// What was not read again since may have been renewed: each as of its reading.
func (m *model) late() (late []*number, total int) {
	late = []*number{} // never null in JSON
	for _, g := range m.groups {
		for i := range g.numbers {
			if n := &g.numbers[i]; n.low(g.readAt) {
				late = append(late, n)
			}
		}
	}
	slices.SortFunc(late, func(a, b *number) int {
		return cmp.Or(cmp.Compare(a.Expires, b.Expires), cmp.Compare(a.ID, b.ID))
	})
	return late[:min(len(late), mostLate)], len(late)
}

// mostLate is how many low leases a page lists.
const mostLate = 50
