package tenure

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// fullPool returns a pool with the given number of groups, of which some are open.
func fullPool(groups, open int) protocol.PoolItem {
	return protocol.PoolItem{Pool: paperPool, Format: protocol.ItemFormat, Size: groups * protocol.GroupSize, OpenGroups: open}
}

// pages returns the groups that one search reads if it finds all of them full until a
// time.
func pages(s *Search, p protocol.PoolItem, now, until time.Time) (all []int) {
	s.Begin()
	for n, ok := s.Group(p, now); ok; n, ok = s.Group(p, now) {
		s.FoundFull(n, until)
		all = append(all, n)
	}
	return all
}

// A claimant that waits has read each group of a full pool once before it reads any group
// again, even if leases in the groups that it has read expire meanwhile. In the largest
// pool, this takes 16 searches. Then it goes on reading, at a quarter of the price, and
// reads every group again at some time.
func TestWaitingReadsEveryGroup(t *testing.T) {
	p := fullPool(256, 256)
	for _, lease := range []time.Duration{0, time.Second, time.Hour} {
		for seed := range uint64(2) {
			s := Search{Dice: rand.New(rand.NewPCG(seed, 1))}
			now, read := paperDay, map[int]bool{}
			until := func() (t time.Time) { // zero if only a release makes room
				if lease > 0 {
					t = now.Add(lease)
				}
				return t
			}
			for range 16 {
				for _, n := range pages(&s, p, now, until()) {
					read[n] = true
				}
				s.Waiting = true
				now = now.Add(2 * time.Second)
			}
			if len(read) != 256 {
				t.Fatalf("leases of %v, seed %d: 16 searches read %d of 256 groups", lease, seed, len(read))
			}
			again := map[int]bool{}
			for range 1000 {
				some := pages(&s, p, now, until())
				if len(some) != laterPages {
					t.Fatalf("leases of %v, seed %d: %d pages in a later search", lease, seed, len(some))
				}
				for _, n := range some {
					again[n] = true
				}
				now = now.Add(2 * time.Second)
			}
			if len(again) != 256 {
				t.Fatalf("leases of %v, seed %d: 1,000 later searches read %d of 256 groups", lease, seed, len(again))
			}
		}
	}
}

// While there are groups to open, the second page is a group of the newer half of the
// open groups, and the third page is the newest group, which shows whether to open the
// next one. When all groups are open, each page is any group, so that a herd does not
// read the same group.
func TestSecondPage(t *testing.T) {
	count := func(groups, page int) (times [32]int) {
		for seed := range uint64(1000) {
			s := Search{Dice: rand.New(rand.NewPCG(seed, 2))}
			times[pages(&s, fullPool(groups, 32), paperDay, time.Time{})[page]]++
		}
		return times
	}
	for n, times := range count(64, 1) {
		if n < 16 && times > 0 || n >= 16 && (times < 30 || times > 100) { // 62.5 are expected
			t.Errorf("with 32 of 64 groups open, group %d is the second page of %d claimants in 1,000", n, times)
		}
	}
	if newest := count(64, 2)[31]; newest < 850 { // the other claimants have read the newest before
		t.Errorf("with 32 of 64 groups open, the newest is the third page of %d claimants in 1,000, want more than 850", newest)
	}
	for page := range 3 {
		for n, times := range count(32, page) {
			if times > 60 { // 31 are expected
				t.Errorf("with all groups open, group %d is page %d of %d claimants in 1,000", n, page, times)
			}
		}
	}
}

// A claimant whose claim was refused pauses once, for three to five quarters of the time that
// the answer took, but for at most a second.
func TestPauseAfterARefusal(t *testing.T) {
	s := Search{Dice: rand.New(rand.NewPCG(1, 5))}
	if d := s.Pause(); d != 0 {
		t.Errorf("before a refusal: got a pause of %v, want none", d)
	}
	const ms = time.Millisecond
	for took, want := range map[time.Duration][2]time.Duration{10 * ms: {7500 * time.Microsecond, 12500 * time.Microsecond}, time.Minute: {600 * ms, time.Second}} {
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			s.Refused(3, 0, took)
			d := s.Pause()
			least, most = min(least, d), max(most, d)
			if d := s.Pause(); d != 0 {
				t.Fatalf("got a second pause of %v, want none", d)
			}
		}
		if near := (want[1] - want[0]) / 20; least < want[0] || least > want[0]+near || most > want[1] || most < want[1]-near {
			t.Errorf("answers of %v: got pauses from %v to %v, want %v to %v", took, least, most, want[0], want[1])
		}
	}
}

// A search begins with a part of any open group. While there are groups to open, a part of
// a group of the newer half and a part of the newest group follow, and then whole pages.
// Once all groups are open, a large part follows instead. If groups were opened in the
// meantime, a claimant begins with a part of the new groups.
func TestPartsComeFirst(t *testing.T) {
	whole := protocol.Part{}
	type page struct {
		group int
		part  protocol.Part
	}
	read := func(s *Search, p protocol.PoolItem) (all []page) {
		if s.seen == nil {
			s.Begin()
		}
		for n, part, ok := s.Next(p, paperDay); ok; n, part, ok = s.Next(p, paperDay) {
			if part == whole {
				s.FoundFull(n, time.Time{})
			}
			all = append(all, page{n, part})
		}
		return all
	}
	places := map[page]bool{}
	for seed := range uint64(1000) {
		p := fullPool(8, 4)
		p.ExcludeBelow, p.Size = 40, 8*protocol.GroupSize-100
		s := &Search{Parts: true, Dice: rand.New(rand.NewPCG(seed, 4))}
		all := read(s, p)
		if len(all) != 7 || all[0].part == whole || all[0].group > 3 || all[1].group < 2 || all[1].part == whole || all[2].group != 3 || all[2].part == whole || all[3].part != whole {
			t.Fatalf("seed %d: with 4 of 8 groups open the pages are %v, want three parts and all groups", seed, all)
		}
		places[all[0]] = true
		p.OpenGroups = 8
		s.Opened(4)
		if all = read(s, p); len(all) != 6 || all[0].group < 4 || all[0].part.Size != protocol.SmallPart || all[1].group < 4 || all[1].part.Size != protocol.LargePart || all[2].part != whole {
			t.Fatalf("seed %d: after 4 groups were opened the pages are %v, want a small part, a large part and those groups", seed, all)
		}
		taken := &Search{Parts: true, Taken: true, Dice: rand.New(rand.NewPCG(seed, 5))}
		if all = read(taken, p); all[0].part.Size != protocol.SmallPart || all[1].part != whole {
			t.Fatalf("seed %d: in a pool that is mostly taken the pages are %v, want a small part and then groups", seed, all)
		}
		for _, pages := range [][]page{read(&Search{Parts: true, Strong: true}, p), read(&Search{Parts: true, Waiting: true}, p), read(&Search{}, p)} {
			for _, pg := range pages {
				if pg.part != whole {
					t.Errorf("seed %d: a search that is strong, waits or has no parts read part %+v", seed, pg.part)
				}
			}
		}
	}
	if want := 4*protocol.GroupSize/protocol.SmallPart - 2; len(places) != want || places[page{0, protocol.PartOf(0, protocol.SmallPart)}] || places[page{0, protocol.PartOf(16, protocol.SmallPart)}] { // the first 40 node IDs are excluded
		t.Errorf("1,000 searches began at %d places of four groups, want %d", len(places), want)
	}
}

// A page yields one node ID at random, and another one once. A new search forgets
// the page of the last one.
func TestSecondFreeNodeID(t *testing.T) {
	s := Search{Dice: rand.New(rand.NewPCG(1, 6))}
	s.Begin()
	if n := s.Found([]int{7}, 0); n != 7 {
		t.Errorf("of one free node ID: got %d, want 7", n)
	}
	if n, ok := s.Second(time.Minute + 999*time.Millisecond); ok {
		t.Errorf("of one free node ID: got %d as the second", n)
	}
	times := map[[2]int]int{}
	for range 6000 {
		s.Begin()
		first := s.Found([]int{3, 4, 5}, time.Minute)
		second, ok := s.Second(time.Minute + 999*time.Millisecond)
		if !ok {
			t.Fatal("of three free node IDs there is no second")
		}
		times[[2]int{first, second}]++
		if n, ok := s.Second(time.Minute + 999*time.Millisecond); ok {
			t.Fatalf("got %d as a third node ID", n)
		}
	}
	for pair, n := range times {
		if pair[0] == pair[1] || n < 900 || n > 1100 { // 1,000 are expected
			t.Errorf("%d of 6,000 times, the node IDs are %v", n, pair)
		}
	}
	s.Found([]int{3, 4}, time.Minute)
	if n, ok := s.Second(time.Minute + time.Second); ok {
		t.Errorf("got %d from a page that is a second old", n)
	}
	s.Found([]int{3, 4}, time.Minute)
	s.Begin()
	if n, ok := s.Second(time.Minute + 999*time.Millisecond); ok {
		t.Errorf("got %d from the page of an older search", n)
	}
}
