package overlap_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/overlap"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func makers(low, size, bits int, l *snowflake.Layout, retiring ...int) overlap.Makers {
	w := protocol.CreatePool{Size: size, ExcludeBelow: low, OpenGroups: 1, NodeBits: bits, ExistBelow: min(size, 1<<bits), At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	if l != nil {
		stored := protocol.LayoutOf(*l)
		w.Layout = &stored
	}
	p, _ := w.Apply(nil)
	return overlap.Makers{Item: p, Retiring: retiring}
}

func TestCanCollide(t *testing.T) {
	wide, js, sony := snowflake.Wide16(), snowflake.JS53(), snowflake.Sonyflake()
	for name, c := range map[string]struct {
		a, b overlap.Makers
		want bool
	}{
		"the same node IDs":                        {makers(0, 4, 0, nil), makers(0, 8, 0, nil), true},
		"node IDs kept apart":                      {makers(0, 4, 0, nil), makers(4, 8, 0, nil), false},
		"kept apart, one is narrow":                {makers(0, 4, 9, nil), makers(512, 516, 0, nil), true},
		"kept apart, below the narrow one's bits":  {makers(0, 4, 9, nil), makers(4, 8, 0, nil), false},
		"kept apart, both narrow":                  {makers(0, 4, 9, nil), makers(4, 8, 9, nil), false},
		"a retired one is still held":              {makers(0, 2, 0, nil, 3), makers(2, 8, 0, nil), true},
		"a retired one outside":                    {makers(0, 2, 0, nil, 9), makers(2, 8, 0, nil), false},
		"two layouts, node fields that differ":     {makers(0, 4, 0, nil), makers(4, 8, 0, &wide), true},
		"two layouts, apart in the shared bits":    {makers(0, 4, 0, nil), makers(256, 512, 0, &wide), false},
		"two layouts, values of different lengths": {makers(0, 4, 0, nil), makers(0, 4, 0, &js), false},
		"two epochs and node places":               {makers(0, 4, 0, nil), makers(4, 8, 0, &sony), true},
	} {
		if got := c.a.CanCollide(c.b); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if got := c.b.CanCollide(c.a); got != c.want {
			t.Errorf("%s, the other way round: got %v, want %v", name, got, c.want)
		}
	}
}

// The test lists all IDs that two small pools can make in one millisecond. CanCollide
// must report true if and only if the lists have an ID in common.
func TestCanCollideAgainstAllIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	epoch := snowflake.Default().Epoch
	yes := 0
	for range 3000 {
		low := 3 + r.IntN(4)
		random := func() overlap.Makers {
			node := 1 + r.IntN(low-1)
			l := snowflake.Layout{Epoch: epoch, Tick: time.Millisecond, TimeBits: 41, NodeBits: uint8(node), SequenceBits: uint8(low - node), NodeLast: r.IntN(2) == 0}
			size := 1 + r.IntN(1<<node)
			m := makers(r.IntN(size), size, 0, &l)
			if r.IntN(2) == 0 {
				width := 1 + r.IntN(node)
				m = makers(r.IntN(min(size, 1<<width)), size, width, &l)
			}
			for range r.IntN(2) {
				m.Retiring = append(m.Retiring, r.IntN(1<<node))
			}
			return m
		}
		a, b := random(), random()
		want := false
		ids := idsOf(a, low)
		for id := range idsOf(b, low) {
			want = want || ids[id]
		}
		if want {
			yes++
		}
		if got := a.CanCollide(b); got != want {
			t.Fatalf("%+v and %+v: got %v, want %v", a, b, got, want)
		}
	}
	if yes < 100 || yes > 2900 {
		t.Errorf("%d of 3000 pairs make equal IDs: the test lacks one kind", yes)
	}
}

// idsOf returns the bits below the time of all IDs that a pool can make.
func idsOf(m overlap.Makers, low int) map[int]bool {
	ids := map[int]bool{}
	l := m.Item.Layout.Snowflake()
	widths := []snowflake.Eras{nil}
	if m.Item.Narrow() { // the pool may get wider
		widths = nil
		for width := m.Item.Bits(); width <= max(int(l.NodeBits), m.Item.Bits()); width++ {
			widths = append(widths, snowflake.Eras{{NodeBits: width}})
		}
	}
	for id := range 1 << low {
		for _, eras := range widths {
			node := eras.Decompose(l, snowflake.ID(id)).Node
			in := node >= m.Item.ExcludeBelow && node < m.Item.Size
			for _, n := range m.Retiring {
				in = in || n == node
			}
			if in {
				ids[id] = true
			}
		}
	}
	return ids
}
