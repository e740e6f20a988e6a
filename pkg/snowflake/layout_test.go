package snowflake_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
	"github.com/nodelease/nodelease/pkg/snowflake/snowflaketest"
)

var layouts = map[string]snowflake.Layout{
	"default":   snowflake.Default(),
	"wide16":    snowflake.Wide16(),
	"js53":      snowflake.JS53(),
	"twitter":   snowflake.Twitter(),
	"discord":   snowflake.Discord(),
	"sonyflake": snowflake.Sonyflake(),
}

// Real IDs from other systems decode to the fields that the documentation of those
// systems states.
func TestIDsOfOthers(t *testing.T) {
	for _, c := range []struct {
		layout string
		id     ID
		time   string
		node   int
		seq    int
	}{
		// en.wikipedia.org/wiki/Snowflake_ID: a tweet of June 2022 by worker 378.
		{"twitter", 1541815603606036480, "2022-06-28T16:07:40.105Z", 378, 0},
		// discord.com/developers/docs/reference: worker 1, process 0, increment 7.
		{"discord", 175928847299117063, "2016-04-30T11:18:25.796Z", 1 << 5, 7},
		// This is from sonyflake v1.2.0's own tests: elapsed<<24 | sequence<<16 | machine.
		{"sonyflake", 1000<<24 | 3<<16 | 258, "2014-09-01T00:00:10Z", 258, 3},
		{"default", 1<<22 | 2<<12 | 3, "2025-01-01T00:00:00.001Z", 2, 3},
	} {
		l := layouts[c.layout]
		p := l.Decompose(c.id)
		if got := p.Time.Format(time.RFC3339Nano); got != c.time || p.Node != c.node || p.Sequence != c.seq {
			t.Errorf("%s %d: %s %d %d; want %s %d %d", c.layout, c.id, got, p.Node, p.Sequence, c.time, c.node, c.seq)
		}
		if id, err := l.Compose(p.Time, p.Node, p.Sequence); id != c.id || err != nil {
			t.Errorf("%s: composed again %d, %v; want %d", c.layout, id, err, c.id)
		}
	}
}

// The documentation of the layouts states these texts.
func TestLayoutsSayHowFarTheyGo(t *testing.T) {
	for name, want := range map[string]string{
		"default":   "41 time, 10 node, 12 sequence bits of 1ms from 2025-01-01 until 2094-09-07; 1024 nodes, 4096000 IDs/s each",
		"wide16":    "41 time, 16 node, 6 sequence bits of 1ms from 2025-01-01 until 2094-09-07; 65536 nodes, 64000 IDs/s each",
		"js53":      "41 time, 6 node, 6 sequence bits of 1ms from 2025-01-01 until 2094-09-07; 64 nodes, 64000 IDs/s each",
		"twitter":   "41 time, 10 node, 12 sequence bits of 1ms from 2010-11-04 until 2080-07-10; 1024 nodes, 4096000 IDs/s each",
		"discord":   "41 time, 10 node, 12 sequence bits of 1ms from 2015-01-01 until 2084-09-06; 1024 nodes, 4096000 IDs/s each",
		"sonyflake": "39 time, 8 sequence, 16 node bits of 10ms from 2014-09-01 until 2188-11-16; 65536 nodes, 25600 IDs/s each",
	} {
		l := layouts[name]
		if err := l.Validate(); err != nil || l.String() != want {
			t.Errorf("%s: %v, %v; want %s", name, l, err, want)
		}
		if l.JavaScriptSafe() != (name == "js53") {
			t.Errorf("%s: safe in JavaScript: %v", name, l.JavaScriptSafe())
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	for want, change := range map[string]func(l *snowflake.Layout){
		"use 1ms or 10ms":            func(l *snowflake.Layout) { l.Tick = time.Second },
		"whole millisecond":          func(l *snowflake.Layout) { l.Epoch = l.Epoch.Add(time.Microsecond) },
		"an epoch of 0001-01-01":     func(l *snowflake.Layout) { l.Epoch = time.Time{} },
		"0 time bits":                func(l *snowflake.Layout) { l.TimeBits = 0 },
		"0 sequence bits":            func(l *snowflake.Layout) { l.SequenceBits = 0 },
		"41 + 10 + 13 bits are 64":   func(l *snowflake.Layout) { l.SequenceBits = 13 },
		"255 + 10 + 12 bits are 277": func(l *snowflake.Layout) { l.TimeBits = 255 },
		"17 node bits":               func(l *snowflake.Layout) { l.NodeBits = 17 },
		"more than 290 years":        func(l *snowflake.Layout) { l.TimeBits, l.NodeBits = 44, 7 },
		"40 time bits of 10ms are":   func(l *snowflake.Layout) { l.TimeBits, l.Tick = 40, 10*time.Millisecond },
	} {
		l := snowflake.Default()
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
		if _, err := snowflake.New(fixed(1), snowflake.WithLayout(l)); err == nil {
			t.Errorf("%s: New accepted the layout, want an error", want)
		}
	}
	if err := (snowflake.Layout{}).Validate(); err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("want all problems at once, got %v", err)
	}
}

func TestComposeAndDecompose(t *testing.T) {
	for name, l := range layouts {
		rng := rand.New(rand.NewPCG(1, 2))
		span := l.Expires().Sub(l.Epoch) / l.Tick
		for range 1000 {
			at := l.Epoch.Add(time.Duration(rng.Int64N(int64(span))) * l.Tick)
			node, seq := rng.IntN(l.Nodes()), rng.IntN(1<<l.SequenceBits)
			id, err := l.Compose(at.Add(l.Tick-1), node, seq)
			if p := l.Decompose(id); err != nil || id < 0 || !p.Time.Equal(at) || p.Node != node || p.Sequence != seq {
				t.Fatalf("%s %v %d %d: got %+v, %v, want the same parts", name, at, node, seq, p, err)
			}
			if id < l.First(at) || id > l.Last(at) || l.First(at) != l.Last(at.Add(-l.Tick))+1 && at.After(l.Epoch) {
				t.Fatalf("%s %v: got %d, want it from %d to %d", name, at, id, l.First(at), l.Last(at))
			}
		}
		if l.First(l.Epoch.Add(-time.Hour)) != 0 || l.Last(l.Expires().Add(time.Hour)) != l.Last(l.Expires().Add(-1)) {
			t.Errorf("%s: got a range past the ends", name)
		}
		for _, f := range []func() (ID, error){
			func() (ID, error) { return l.Compose(l.Epoch.Add(-1), 0, 0) },
			func() (ID, error) { return l.Compose(l.Expires(), 0, 0) },
			func() (ID, error) { return l.Compose(l.Epoch, -1, 0) },
			func() (ID, error) { return l.Compose(l.Epoch, l.Nodes(), 0) },
			func() (ID, error) { return l.Compose(l.Epoch, 0, 1<<l.SequenceBits) },
		} {
			if id, err := f(); err == nil || id != 0 {
				t.Errorf("%s: got %d, %v, want 0 and an error", name, id, err)
			}
		}
	}
}

func ExampleLayout_First() {
	l := snowflake.Default()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	fmt.Printf("SELECT … WHERE id BETWEEN %d AND %d", l.First(noon), l.Last(noon.Add(time.Hour)))
	// Output: SELECT … WHERE id BETWEEN 132815152742400000 AND 132830252240994303
}

// The following tests are for a pool whose node IDs become wider while its nodes are
// making IDs.

// widening returns the eras of a pool whose node IDs first have 2 bits and, beginning ms
// milliseconds after noon, 3 bits.
func widening(ms int) snowflake.Eras {
	return snowflake.Eras{{NodeBits: 2}, {From: noon.Add(time.Duration(ms) * time.Millisecond), NodeBits: 3}}
}

// Two nodes make IDs as fast as they can, before and after the width changes. In the
// narrow width, their node IDs would have the same bits. No two IDs are equal, the IDs
// of each node grow, all IDs are decoded correctly, and no call waits for longer than a
// tick.
func TestErasChangeUnderLoad(t *testing.T) {
	all := maps.Clone(layouts)
	all["used up in every tick"] = snowflake.Layout{Epoch: snowflake.Default().Epoch, Tick: time.Millisecond, TimeBits: 41, NodeBits: 4, SequenceBits: 4}
	for name, l := range all {
		eras := widening(43) // the change is not at the beginning of a 10 ms tick
		wide := noon.Add(43 * time.Millisecond)
		seen := map[ID]bool{}
		for _, node := range []int{1, 5} {
			clock := snowflaketest.NewClock(noon)
			s := free()
			s.NodeID, s.Nodes, s.Eras = node, 8, eras
			if node == 5 { // node ID 5 was seeded for the wider era
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
				if node == 5 && last == 0 && err == nil { // the first call waited until the span began
					before = clock.Monotonic()
				}
				if err != nil || id <= last || seen[id] {
					t.Fatalf("%s, node %d: got %d after %d, seen %v, %v, want a new, larger ID", name, node, id, last, seen[id], err)
				}
				if took := clock.Monotonic() - before; took > l.Tick {
					t.Errorf("%s, node %d: a call took %v, want at most a tick", name, node, took)
				}
				p := eras.Decompose(l, id)
				if p.Node != node || p.Time.After(clock.Wall()) || p.Time.Before(noon.Add(-l.Tick)) {
					t.Fatalf("%s: %d of node %d at %v is decoded as %+v", name, id, node, clock.Wall(), p)
				}
				width := 2
				if !p.Time.Before(wide) {
					width = 3
				}
				widths[width]++
				if most := 1 << (int(l.SequenceBits) + int(l.NodeBits) - width); p.Sequence >= most {
					t.Fatalf("%s: got sequence %d, want it below %d", name, p.Sequence, most)
				}
				seen[id], last = true, id
				if l.SequenceBits > 4 {
					clock.Advance(time.Duration(len(seen)%3) * 5 * time.Microsecond)
				}
			}
			if widths[3] < 100 || node == 1 && widths[2] < 100 || node == 5 && widths[2] > 0 {
				t.Errorf("%s, node %d: got %v IDs by width, want at least 100 of each width that it fits", name, node, widths)
			}
		}
	}
}

// Many goroutines call every method, with the machine's clock. At the moment of the
// change, no call is refused, and no ID has the wrong width.
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
						t.Errorf("got %d after %d, want a larger ID", id, mine[j-1])
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range mine {
					if p := eras.Decompose(snowflake.Wide16(), id); all[id] || p.Node != 300 {
						t.Errorf("ID %d: seen %v, got %+v, want a new one of node 300", id, all[id], p)
						return
					}
					all[id] = true
				}
			})
		}
		wg.Wait()
	}
}

// A node that sleeps during the change makes no ID of the old width after the change. It
// makes no ID at all until it has been told the new width.
func TestErasSleeper(t *testing.T) {
	clock := newFrozen()
	wide := noon.Add(time.Second)
	s := free()
	s.NodeID, s.Nodes, s.Eras, s.Until = 1, 8, widening(1000)[:1], wide.Add(-time.Millisecond)
	tl, g := bind(t, clock, s)
	before := next(t, g)
	clock.advance(2 * time.Second)
	if id, err := g.Next(); !errors.Is(err, snowflake.ErrFenced) {
		t.Fatalf("got %v, %v, want ErrFenced", id, err)
	}
	if err := tl.Widen(widening(1000)[1]); err != nil {
		t.Fatal(err)
	}
	tl.Extend(noon.Add(time.Minute), math.MaxInt64)
	id := next(t, g)
	if p := widening(1000).Decompose(snowflake.Default(), id); id <= before || p.Node != 1 || p.Sequence != 0 || !p.Time.Equal(noon.Add(2*time.Second)) {
		t.Errorf("got %d after %d, %+v, want a larger one of node 1 at noon + 2 s", id, before, p)
	}
	// Confirmed milliseconds may have been stamped, so no new era can begin in them.
	err := tl.Widen(snowflake.Era{From: noon.Add(30 * time.Second), NodeBits: 4})
	if err == nil || !strings.Contains(err.Error(), "cannot be added") {
		t.Errorf("got %v, want an error: cannot be added", err)
	}
	if err := tl.Widen(snowflake.Era{From: noon.Add(2 * time.Minute), NodeBits: 17}); err == nil {
		t.Error("17 node bits")
	}
}

// IDs of a pool that was never widened are decoded with the layout alone.
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
