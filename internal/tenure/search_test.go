package tenure

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// fullPool is a pool of so many groups, of which some are open.
func fullPool(groups, open int) protocol.PoolItem {
	return protocol.PoolItem{Pool: paperPool, Format: protocol.ItemFormat, Size: groups * protocol.GroupSize, OpenGroups: open}
}

// pages are the groups of one search that finds all of them full, until a time.
func pages(s *Search, p protocol.PoolItem, now, until time.Time) (all []int) {
	s.Begin()
	for n, ok := s.Group(p, now); ok; n, ok = s.Group(p, now) {
		s.FoundFull(n, until)
		all = append(all, n)
	}
	return all
}

// A claimant that waits has read each group of a full pool once before it reads any
// again, whether or not leases of those that it read have expired meanwhile: of the
// largest pool within 16 searches. Then it goes on reading, at a quarter of the price,
// and leaves no group out for good.
func TestWaitingReadsEveryGroup(t *testing.T) {
	p := fullPool(256, 256)
	for _, lease := range []time.Duration{0, time.Second, time.Hour} {
		for seed := range uint64(2) {
			s := Search{Dice: rand.New(rand.NewPCG(seed, 1))}
			now, read := paperDay, map[int]bool{}
			until := func() (t time.Time) { // zero: only a release makes room
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

// The second page is the newest group while that reports whether to open the next. When
// all groups are open it is any of them: the newest would be everybody's.
func TestSecondPage(t *testing.T) {
	for seed := range uint64(20) {
		s := Search{Dice: rand.New(rand.NewPCG(seed, 2))}
		all := pages(&s, fullPool(64, 32), paperDay, time.Time{})
		if all[0] != 31 && all[1] != 31 {
			t.Errorf("seed %d: with 32 of 64 groups open the first pages are %v", seed, all[:2])
		}
	}
	newest := 0
	for seed := range uint64(1000) {
		s := Search{Dice: rand.New(rand.NewPCG(seed, 3))}
		if all := pages(&s, fullPool(64, 64), paperDay, time.Time{}); all[1] == 63 {
			newest++
		}
	}
	if newest > 40 { // 16 are expected, and the seeds are the same in each run
		t.Errorf("the newest of 64 open groups was the second page of %d claimants in 1,000", newest)
	}
}
