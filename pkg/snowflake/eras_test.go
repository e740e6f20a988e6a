package snowflake_test

import (
	"errors"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
	"github.com/nodelease/nodelease/pkg/snowflake/snowflaketest"
)

// A pool whose node IDs become wider while its nodes make IDs.

// widening is a pool's eras: 2 bits, and 3 from ms milliseconds after noon on.
func widening(ms int) snowflake.Eras {
	return snowflake.Eras{{NodeBits: 2}, {From: noon.Add(time.Duration(ms) * time.Millisecond), NodeBits: 3}}
}

// Two nodes whose numbers look the same in the narrow width make IDs through the
// change, as fast as they can: no two are alike, each grows, each is taken apart
// rightly, and no call waits for longer than a tick.
func TestErasChangeUnderLoad(t *testing.T) {
	all := maps.Clone(layouts)
	all["used up in each tick"] = snowflake.Layout{Epoch: snowflake.Default().Epoch, Tick: time.Millisecond, TimeBits: 41, NodeBits: 4, SequenceBits: 4}
	for name, l := range all {
		eras := widening(43) // not where a tick of 10 ms begins
		wide := noon.Add(43 * time.Millisecond)
		seen := map[ID]bool{}
		for _, node := range []int{1, 5} {
			clock := snowflaketest.NewClock(noon)
			s := free()
			s.NodeID, s.Nodes, s.Eras = node, 8, eras
			if node == 5 { // it was seeded with the wider era
				s.NotBefore = wide
			}
			tl := snowflake.NewTimeline(clock)
			if err := tl.Bind(s); err != nil {
				t.Fatal(err)
			}
			g := generator(t, tl, snowflake.WithLayout(l))
			var last ID
			widths := map[int]int{}
			for clock.Wall().Before(wide.Add(30 * time.Millisecond)) {
				before := clock.Monotonic()
				id, err := g.Next()
				if node == 5 && last == 0 && err == nil { // it waits for its span to begin
					before = clock.Monotonic()
				}
				if err != nil || id <= last || seen[id] {
					t.Fatalf("%s, node %d: %d after %d, seen %v, %v", name, node, id, last, seen[id], err)
				}
				if took := clock.Monotonic() - before; took > l.Tick {
					t.Errorf("%s, node %d: a call took %v", name, node, took)
				}
				p := eras.Decompose(l, id)
				if p.Node != node || p.Time.After(clock.Wall()) || p.Time.Before(noon.Add(-l.Tick)) {
					t.Fatalf("%s: %d of node %d at %v is taken apart as %+v", name, id, node, clock.Wall(), p)
				}
				width := 2
				if !p.Time.Before(wide) {
					width = 3
				}
				widths[width]++
				if most := 1 << (int(l.SequenceBits) + int(l.NodeBits) - width); p.Sequence >= most {
					t.Fatalf("%s: sequence %d of %d", name, p.Sequence, most)
				}
				seen[id], last = true, id
				if l.SequenceBits > 4 {
					clock.Advance(time.Duration(len(seen)%3) * 5 * time.Microsecond)
				}
			}
			if widths[3] < 100 || node == 1 && widths[2] < 100 || node == 5 && widths[2] > 0 {
				t.Errorf("%s, node %d: %v IDs by width", name, node, widths)
			}
		}
	}
}

// The machine's clock, and many callers by every method: at the moment of the
// change none is refused, and no ID has the other width.
func TestErasChangeBetweenCallers(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		from := time.Now().Add(15 * time.Millisecond).Truncate(time.Millisecond)
		eras := snowflake.Eras{{NodeBits: 9}, {From: from, NodeBits: 10}, {From: from.Add(5 * time.Millisecond), NodeBits: 11}}
		tl := snowflake.NewTimeline(nil)
		err := tl.Bind(snowflake.Span{NodeID: 300, Nodes: 65528, Eras: eras, Until: snowflake.Forever(), Deadline: math.MaxInt64})
		if err != nil {
			t.Fatal(err)
		}
		g := generator(t, tl, snowflake.WithLayout(snowflake.Wide16()))
		var mu sync.Mutex
		all := map[ID]bool{}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				block := g.Block()
				var mine []ID
				for time.Now().Before(from.Add(15 * time.Millisecond)) {
					var id ID
					var err error
					switch i % 4 {
					case 0:
						id, err = g.Next()
					case 1:
						id, err = block.Next()
					case 2:
						id, err = g.NextContext(t.Context())
					case 3:
						var some [50]ID
						var n int
						n, err = g.NextN(t.Context(), some[:])
						mine, id = append(mine, some[:n-1]...), some[n-1]
					}
					if err != nil {
						t.Error(err)
						return
					}
					mine = append(mine, id)
				}
				for j, id := range mine {
					if j > 0 && id <= mine[j-1] {
						t.Errorf("%d after %d", id, mine[j-1])
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range mine {
					if p := eras.Decompose(snowflake.Wide16(), id); all[id] || p.Node != 300 {
						t.Errorf("%d: seen %v, %+v", id, all[id], p)
						return
					}
					all[id] = true
				}
			})
		}
		wg.Wait()
	}
}

// A node that sleeps through the change makes no ID of the old width behind it, and
// none at all until it has learned of the new one.
func TestErasSleeper(t *testing.T) {
	clock := newFrozen()
	wide := noon.Add(time.Second)
	s := free()
	s.NodeID, s.Nodes, s.Eras, s.Until = 1, 8, widening(1000)[:1], wide.Add(-time.Millisecond)
	tl, g := bind(t, clock, s)
	before := next(t, g)
	clock.advance(2 * time.Second)
	if id, err := g.Next(); !errors.Is(err, snowflake.ErrFenced) {
		t.Fatal(id, err)
	}
	if err := tl.Widen(widening(1000)[1]); err != nil {
		t.Fatal(err)
	}
	tl.Extend(noon.Add(time.Minute), math.MaxInt64)
	id := next(t, g)
	if p := widening(1000).Decompose(snowflake.Default(), id); id <= before || p.Node != 1 || p.Sequence != 0 || !p.Time.Equal(noon.Add(2*time.Second)) {
		t.Errorf("%d after %d is %+v", id, before, p)
	}
	// What is confirmed may have been stamped: no era can begin there any more.
	err := tl.Widen(snowflake.Era{From: noon.Add(30 * time.Second), NodeBits: 4})
	if err == nil || !strings.Contains(err.Error(), "cannot be added") {
		t.Error(err)
	}
	if err := tl.Widen(snowflake.Era{From: noon.Add(2 * time.Minute), NodeBits: 17}); err == nil {
		t.Error("17 node bits")
	}
}

// What was never widened is taken apart as its layout says.
func TestErasDecompose(t *testing.T) {
	for name, l := range layouts {
		id, err := l.Compose(noon, l.Nodes()-1, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []snowflake.Eras{nil, {{NodeBits: 16}}} {
			if got, want := e.Decompose(l, id), l.Decompose(id); got != want {
				t.Errorf("%s, %v: %+v, want %+v", name, e, got, want)
			}
		}
	}
}
