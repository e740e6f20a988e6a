package protocol

import (
	"slices"
	"testing"
)

// A pool doubles its open groups until all are open. A narrow pool does
// not open, before it has to, a group that would cost its IDs a sequence bit. For a fleet
// of 1,024 processes, the width changes only twice.
func TestOpenNext(t *testing.T) {
	steps := func(p PoolItem) (open []int) {
		for p.OpenGroups < UsableGroups(p) {
			p.OpenGroups = OpenNext(p)
			open = append(open, p.OpenGroups)
			if p.Narrow() && BitsFor(p.OpenGroups) > p.Bits() { // the width follows the open groups
				p.Eras[0].NodeBits = BitsFor(p.OpenGroups)
				p.ExistBelow = min(p.Size, 1<<p.Bits())
			}
		}
		return open
	}
	narrow, _ := CreatePool{Pool: "p", Size: MaxPoolSize, OpenGroups: 1, NodeBits: 9, ExistBelow: 512}.Apply(nil)
	for name, c := range map[string]struct {
		pool PoolItem
		want []int
	}{
		"the largest":  {PoolItem{Size: MaxPoolSize, OpenGroups: 1}, []int{2, 4, 8, 16, 32, 64, 128, 256}},
		"odd":          {PoolItem{Size: 1300, OpenGroups: 1}, []int{2, 4, 6}},
		"all reserved": {PoolItem{Size: 3000, ExcludeBelow: 1024, OpenGroups: 1}, []int{6, 8, 12}},
		"narrow":       {narrow, []int{2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 256}},
	} {
		if got := steps(c.pool); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v open, want %v", name, got, c.want)
		}
	}
}

// Open groups have one and a half node IDs for each holder, unless all groups are open.
func TestGroupsFor(t *testing.T) {
	for _, c := range []struct{ size, low, expect, want int }{
		{65536, 0, 0, 0}, {65536, 0, 1, 1}, {65536, 0, 170, 1}, {65536, 0, 171, 2}, {65536, 8, 170, 2},
		{65536, 0, 1024, 6}, {1024, 0, 1024, 4}, {65536, 0, 8192, 48}, {65536, 0, 65536, 256}, {65536, 1024, 1024, 10},
	} {
		p := PoolItem{Size: c.size, ExcludeBelow: c.low}
		if got := GroupsFor(p, c.expect); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}
