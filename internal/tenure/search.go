package tenure

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Guess returns the node ID that a session tries first; false if the pool has none.
func Guess(session string, p protocol.PoolItem) (node int, ok bool) {
	low, high := p.Open()
	if high <= low {
		return 0, false
	}
	h := fnv.New64a()
	h.Write([]byte(session))
	return low + int(h.Sum64()%uint64(high-low)), true //nolint:gosec // high is more than low
}

// MostlyTaken reports whether half of a pool's node IDs were taken when it was last
// counted. A guess would then be refused as often as not: it needs as many requests as
// to read a part of a group first, and costs more, since refused writes are paid for.
func MostlyTaken(p protocol.PoolItem, now time.Time, skew time.Duration) bool {
	m := p.Measured
	return m.Fresh(now, skew) && 2*(m.Held+m.Cooling) >= p.Limit()-p.ExcludeBelow
}

// Search chooses the groups that a claimant reads, and remembers its findings from
// one search to the next.
//
// A page of a large pool is a group of 256, so reading all of it for one node ID
// would be 256 pages. A search begins with a part of a group, at a random place: a tenth
// of the price, and of the load on its partition. Only if that has nothing free, and no
// group can be opened, are whole pages read. The first is of a random open group, to
// spread a herd. If that is full and there are more groups to open, the second is of a random
// one of the newer half, since the older ones have had more time to fill; and the third is of
// the newest, which alone shows whether it is time to open the next. Read earlier, it would be
// the same page for all of a herd. Random ones follow: first those that no search of this
// claimant has read, so that it has seen every group once before it reads any again. Groups
// that were full and have no lease that expires by now come last: only a release makes room
// in them.
//
// The pool counts as exhausted when a search finds nothing on firstPages, which cover
// pools of up to 4,096 node IDs. In larger, nearly full pools it may miss a free node
// ID: with 1 % free in any 256 groups a search of 16 pages fails once in 10^17. A
// waiting claimant reads as many pages at a time as [Wait] says; without a note up to
// firstPages per second of groups that it has not read yet, and laterPages when it has
// read them all.
type Search struct {
	full    map[int]time.Time // when the next lease of a full group expires
	seen    map[int]bool      // in this search
	Waiting bool              // an earlier search found nothing
	Parts   bool              // the store reads parts of groups
	parts   int               // that were read in this search, or since groups were opened
	Strong  bool              // the next finding is the last: no page may be old
	Paced   int               // pages of a search while polling a note; 0 = as above
	Wanted  []int             // groups that such a search reads first
	turns   map[int]int       // the page of this claimant that each group was last
	turn    int
	fresh   int                   // groups from here on were opened since; 0 = none were
	refused map[int]time.Duration // when a claim was, on the monotonic clock, by node ID
	took    time.Duration         // the last refusal, unless Pause was called since
	Dice    *rand.Rand            // set by a simulation; nil means the process's
}

const (
	firstPages = 16
	laterPages = 4
	// oldest is twice what DynamoDB's eventually consistent reads usually lag behind.
	oldest = 2 * time.Second
)

// Begin begins a search.
func (s *Search) Begin() { s.seen, s.parts = map[int]bool{}, 0 }

// Next returns the group to read next, if there should be another page, and the part of
// it.
func (s *Search) Next(p protocol.PoolItem, now time.Time) (n, part int, ok bool) {
	if node, ok := s.place(p); ok {
		s.parts++
		return node / protocol.GroupSize, node % protocol.GroupSize / protocol.PartSize, true
	}
	n, ok = s.Group(p, now)
	return n, protocol.Whole, ok
}

// place returns a node ID whose part is to be read: up to three while there are groups to
// open, in the order of whole pages. A claimant that has found groups full, or has waited,
// reads whole pages, unless groups were opened.
func (s *Search) place(p protocol.PoolItem) (node int, ok bool) {
	low, high := p.Open()
	half, last := newer(p)
	switch {
	case !s.Parts || s.Strong || s.Paced > 0:
		return 0, false
	case s.fresh > 0:
		low = max(low, s.fresh*protocol.GroupSize)
	case s.Waiting || len(s.full) > 0:
		return 0, false
	}
	switch {
	case s.parts == 0:
	case last+1 >= p.Groups() || s.parts == 2 && half == last || s.parts > 2:
		return 0, false
	case s.parts == 1:
		low = max(low, half*protocol.GroupSize)
	default:
		low = max(low, last*protocol.GroupSize)
	}
	if low >= high {
		return 0, false
	}
	return low + s.random(high-low), true
}

// Group returns the next group to read, if there should be another page.
func (s *Search) Group(p protocol.PoolItem, now time.Time) (n int, ok bool) {
	if s.Paced > 0 {
		return s.paced(p)
	}
	first, last := p.GroupsOpen()
	var fresh, unread, due, full []int
	for n := first; n <= last; n++ {
		switch at, known := s.full[n]; {
		case s.seen[n]:
		case s.fresh > 0 && n >= s.fresh:
			fresh = append(fresh, n)
		case !known:
			unread = append(unread, n)
		case at.IsZero() || at.After(now):
			full = append(full, n)
		default:
			due = append(due, n)
		}
	}
	switch pages := len(s.seen); {
	case pages >= firstPages:
		fresh, unread, due, full = fresh[:min(len(fresh), max(2*firstPages-pages, 0))], nil, nil, nil
	case s.Waiting && pages >= laterPages:
		due, full = nil, nil
	}
	for _, some := range [][]int{fresh, unread, due, full} {
		if len(some) > 0 {
			from := 0
			if len(fresh) == 0 && last+1 < p.Groups() { // it may be time to open groups
				from = s.later(some, p)
			}
			return s.take(some[from+s.random(len(some)-from)]), true
		}
	}
	return 0, false
}

// newer returns the first group of the newer half of the open ones, and the last.
func newer(p protocol.PoolItem) (half, last int) {
	first, last := p.GroupsOpen()
	return last + 1 - (last+2-first)/2, last
}

// later returns the index in some groups from which on the next page is chosen: for the
// second page that of the first one in the newer half, for the third that of the newest.
func (s *Search) later(some []int, p protocol.PoolItem) int {
	half, last := newer(p)
	from, _ := slices.BinarySearch(some, half)
	switch {
	case len(s.seen) == 1 && from < len(some):
		return from
	case len(s.seen) == 2 && some[len(some)-1] == last:
		return len(some) - 1
	}
	return 0
}

// paced is Group for a claimant that polls a note: it reads the groups that it was told
// of, then the one that it has not read for longest.
func (s *Search) paced(p protocol.PoolItem) (n int, ok bool) {
	first, last := p.GroupsOpen()
	if len(s.seen) >= min(s.Paced, last+1-first) {
		return 0, false
	}
	for len(s.Wanted) > 0 {
		n, s.Wanted = s.Wanted[0], s.Wanted[1:]
		if n >= first && n <= last && !s.seen[n] {
			return s.take(n), true
		}
	}
	longest := []int{}
	for n := first; n <= last; n++ {
		switch {
		case s.seen[n]:
		case len(longest) == 0, s.turns[n] < s.turns[longest[0]]:
			longest = []int{n}
		case s.turns[n] == s.turns[longest[0]]:
			longest = append(longest, n)
		}
	}
	return s.take(longest[s.random(len(longest))]), true
}

// take notes that a group is read now.
func (s *Search) take(n int) int {
	if s.turns == nil {
		s.turns = map[int]int{}
	}
	s.turn++
	s.seen[n], s.turns[n] = true, s.turn
	return n
}

// random returns a number below n.
func (s *Search) random(n int) int {
	if s.Dice != nil {
		return s.Dice.IntN(n)
	}
	return rand.IntN(n)
}

// FoundFull records the earliest time at which a group can have a free node ID
// without a release; zero means never.
func (s *Search) FoundFull(n int, next time.Time) {
	if s.full == nil {
		s.full = map[int]time.Time{}
	}
	s.full[n] = next
}

// Refused records when a claim of a node ID was refused, on the monotonic clock, and how
// long the answer took.
func (s *Search) Refused(node int, now, took time.Duration) {
	s.took = took
	if s.refused == nil {
		s.refused = map[int]time.Duration{}
	}
	s.refused[node] = now
}

// longestPause is the longest pause before a search.
const longestPause = time.Second

// Pause returns the pause before the next search: after a refused claim up to twice the
// time that its answer took. In a herd others claim at the same time, and a page shows only
// what was written before it was read. So fewer claims are refused after it, by a third in a
// herd on as many node IDs; and a start without others is not slower by more than a request
// takes.
func (s *Search) Pause() time.Duration {
	longest := min(2*s.took, longestPause)
	s.took = 0
	return time.Duration(s.random(int(longest) + 1))
}

// Believe leaves out of the node IDs that look free those that refused a claim within
// oldest: a page that may be old would send the claimant there again and again.
func (s *Search) Believe(free []int, now time.Duration) []int {
	if s.Strong {
		return free
	}
	return slices.DeleteFunc(free, func(n int) bool {
		at, known := s.refused[n]
		return known && now-at < oldest
	})
}

// Again makes the next search as thorough as the first, for a claimant that waits: groups
// that were full may not be.
func (s *Search) Again() { s.Waiting, s.Paced = false, 0 }

// Opened records that groups from first on are new.
func (s *Search) Opened(first int) { s.fresh, s.parts = first, 0 }
