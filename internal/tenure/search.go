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

// MostlyTaken reports whether at least half of a pool's node IDs were taken when it was
// last counted, if that count is fresh. Then at least every second guess would be refused.
// On average, a guess would need as many requests as a search that begins by reading a part
// of a group, and would cost more, since refused writes are paid for.
func MostlyTaken(p protocol.PoolItem, now time.Time, skew time.Duration) bool {
	m := p.Measured
	return m.Fresh(now, skew) && 2*(m.Held+m.Cooling) >= p.Limit()-p.ExcludeBelow
}

// Search chooses the groups that a claimant reads, and remembers its findings from one
// search to the next.
//
// A page of a large pool is a group of 256 node IDs, so reading all of the largest pool
// would take 256 pages. A search begins with a part of a group, at a random place: compared
// with a page, this is a tenth of the price and of the load on the partition. If no node ID
// of that part is free and no group can be opened, a part of four times the size follows,
// and then whole pages. The first page is a random open group, to spread a herd. If it is
// full and there are more groups to open, the second page is a random one of the newer
// half, since the older groups have had more time to fill. The third page is the newest
// group, because only that group shows whether it is time to open the next one. If claimants
// read the newest group earlier, a whole herd would read the same page. Random groups
// follow: first those that no search of this claimant has read, so that the claimant sees
// every group once before it reads any group again. Groups that were full, and in which no lease has expired by now, come last:
// only a release makes room in them.
//
// The pool is considered exhausted when a search finds nothing on firstPages pages, which
// cover pools of up to 4,096 node IDs. In larger, nearly full pools a search may miss a
// free node ID: if 1 % of the node IDs in 256 groups are free, a search of 16 pages fails
// once in 10^17 times. A waiting claimant reads as many pages at a time as [Wait] decides.
// Without a note, it reads up to firstPages pages a second while there are groups that it
// has not read yet, and laterPages pages a second once it has read them all.
type Search struct {
	full    map[int]time.Time // when the next lease of a full group expires
	seen    map[int]bool      // in this search
	Waiting bool              // an earlier search found nothing
	Parts   bool              // the store reads parts of groups
	Taken   bool              // the pool is known to be mostly taken, so large parts are not read
	parts   int               // parts that were read in this search, or since groups were opened
	Strong  bool              // reads are strongly consistent, so no page is old
	Paced   int               // pages of a search while polling a note; 0: as above
	Wanted  []int             // groups that a paced search reads first
	turns   map[int]int       // by group: the number of the page with which the claimant last read it
	turn    int
	fresh   int                   // the first group that was opened after the search began; 0: none was
	refused map[int]time.Duration // when a claim was refused, on the monotonic clock, by node ID
	broken  map[int]bool          // node IDs whose items a claim found to be corrupt
	took    time.Duration         // how long the last refusal took; 0 once Pause has used it
	second  []int                 // the node ID that Second returns; empty if there is none
	found   time.Duration         // when its page was read, on the monotonic clock
	Dice    *rand.Rand            // set by a simulation; nil: the process's random source
}

const (
	firstPages = 16
	laterPages = 4
	// oldest is twice what DynamoDB's eventually consistent reads usually lag behind.
	oldest = 2 * time.Second
	// secondWithin is how long after it was read a page may be used for a second claim.
	secondWithin = time.Second
)

// Begin begins a search.
func (s *Search) Begin() { s.seen, s.parts, s.second = map[int]bool{}, 0, nil }

// Next returns the next group to read, and which part of it; false when the search is over.
func (s *Search) Next(p protocol.PoolItem, now time.Time) (n int, part protocol.Part, ok bool) {
	if node, size, ok := s.place(p); ok {
		s.parts++
		return node / protocol.GroupSize, protocol.PartOf(node, size), true
	}
	n, ok = s.Group(p, now)
	return n, protocol.Part{}, ok
}

// place returns a node ID whose part of a group is to be read, and the size of the part. A
// search reads a small part and then a large one, or up to three small ones while there are
// groups to open, in the same order as whole pages. A claimant that has found groups full,
// or has waited, reads whole pages, unless groups were opened.
func (s *Search) place(p protocol.PoolItem) (node, size int, ok bool) {
	low, high := p.Open()
	half, last := newer(p)
	switch {
	case !s.Parts || s.Strong || s.Paced > 0:
		return 0, 0, false
	case s.fresh > 0:
		low = max(low, s.fresh*protocol.GroupSize)
	case s.Waiting || len(s.full) > 0:
		return 0, 0, false
	}
	size = protocol.SmallPart
	switch {
	case s.parts == 0:
	case s.parts == 1 && !s.Taken && last+1 >= p.Groups() && high-low > protocol.LargePart:
		size = protocol.LargePart
	case last+1 >= p.Groups() || s.parts == 2 && half == last || s.parts > 2:
		return 0, 0, false
	case s.parts == 1:
		low = max(low, half*protocol.GroupSize)
	default:
		low = max(low, last*protocol.GroupSize)
	}
	if low >= high {
		return 0, 0, false
	}
	return low + s.random(high-low), size, true
}

// Group returns the next group to read as a whole page; false when the search is over.
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

// later returns the index in some from which on the next page is chosen. For the second
// page, this is the first group of the newer half; for the third page, the newest group;
// for any other page, 0.
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

// paced does what Group does, for a claimant that polls a note: it returns first the Wanted
// groups, then the group that this claimant has not read for the longest time.
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

// take records that group n is read now.
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

// Found returns the node ID to claim: a random one of the free node IDs of a page that was
// read at now, on the monotonic clock.
func (s *Search) Found(free []int, now time.Duration) int {
	first := s.random(len(free))
	s.found = now
	if len(free) > 1 {
		s.second = []int{free[(first+1+s.random(len(free)-1))%len(free)]}
	}
	return free[first]
}

// Second returns another free node ID of the page that was read last. A claimant tries it
// when its claim is refused, instead of reading again. When a herd of 1,024 starts on 1,024
// node IDs, this saves a tenth of the reads. A page yields one second node ID only, and none
// once secondWithin has passed, because by then the page is out of date.
func (s *Search) Second(now time.Duration) (node int, ok bool) {
	if len(s.second) == 0 || now-s.found >= secondWithin {
		return 0, false
	}
	node, s.second = s.second[0], nil
	return node, true
}

// FoundFull records the earliest time at which a group can have a free node ID
// without a release; zero means never.
func (s *Search) FoundFull(n int, next time.Time) {
	if s.full == nil {
		s.full = map[int]time.Time{}
	}
	s.full[n] = next
}

// Refused records that a claim of a node ID was refused at now, on the monotonic clock, and
// how long the answer took.
func (s *Search) Refused(node int, now, took time.Duration) {
	s.took = took
	if s.refused == nil {
		s.refused = map[int]time.Duration{}
	}
	s.refused[node] = now
}

// longestPause is the longest pause before a search.
const longestPause = time.Second

// Pause returns the pause before the next search. After a refused claim it is about as long
// as the answer took: in a herd, other claimants claim at the same time, and a page shows
// only what was written before it was read. So no pause is shorter than three quarters of
// that time, in which those claims are answered too, and none is longer than five quarters,
// because the last claimant to search decides when the herd has started. After an answer of
// 0.8 s or more, the pause is 0.6 s to longestPause. With this pause, a third fewer claims
// are refused when a herd starts on as many node IDs as it has members. A claimant that
// starts alone is delayed, on average, by no more than one request takes.
func (s *Search) Pause() time.Duration {
	longest := min(s.took+s.took/4, longestPause)
	s.took = 0
	shortest := longest * 3 / 5
	return shortest + time.Duration(s.random(int(longest-shortest)+1))
}

// Broken records that a claim found the item of a node ID to be corrupt.
func (s *Search) Broken(node int) {
	if s.broken == nil {
		s.broken = map[int]bool{}
	}
	s.broken[node] = true
}

// Believe removes from the free node IDs of a page those for which a claim was refused less
// than oldest ago. Otherwise a page that is out of date would send the claimant to these
// node IDs again and again.
//
// Invariant (liveness): a node ID whose item is corrupt is not claimed again. A page may show it
// as free, since it lacks nothing that a reader needs.
func (s *Search) Believe(free []int, now time.Duration) []int {
	return slices.DeleteFunc(free, func(n int) bool {
		at, known := s.refused[n]
		return s.broken[n] || !s.Strong && known && now-at < oldest
	})
}

// Again makes the next search of a waiting claimant as thorough as the first, since groups
// that were full may have room again.
func (s *Search) Again() { s.Waiting, s.Paced = false, 0 }

// Opened records that the groups from first on are new.
func (s *Search) Opened(first int) { s.fresh, s.parts = first, 0 }
