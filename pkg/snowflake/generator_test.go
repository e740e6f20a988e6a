package snowflake_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
	"github.com/nodelease/nodelease/pkg/snowflake/snowflaketest"
)

func TestNextCountsThroughATickAndThenWaits(t *testing.T) {
	clock := snowflaketest.NewClock(noon)
	g := generator(t, clock.Node(7))
	for i := range 10_000 {
		id := next(t, g)
		at := noon.Add(time.Duration(i/4096) * time.Millisecond)
		if !id.Time().Equal(at) || id.Node() != 7 || id.Sequence() != i%4096 {
			t.Fatalf("ID %d: got %v %d %d, want the tick, node 7 and the next sequence number", i, id.Time(), id.Node(), id.Sequence())
		}
	}
	if passed := clock.Monotonic(); passed != 2*time.Millisecond {
		t.Errorf("10,000 IDs took %v, want 2 ms", passed)
	}
	if s := g.Stats(); s.Issued != 10_000 || s.Waits != 2 || s.Refused != 0 {
		t.Errorf("got %+v, want Issued 10,000, Waits 2 and Refused 0", s)
	}
}

func TestEveryCallMakesTheSameIDs(t *testing.T) {
	const n = 9000
	ctx := context.Background()
	want := make([]ID, n)
	if got, err := generator(t, snowflaketest.NewClock(noon).Node(7)).NextN(ctx, want); got != n || err != nil {
		t.Fatal(got, err)
	}
	for name, make := range map[string]func(*snowflake.Generator) func() (ID, error){
		"Next": func(g *snowflake.Generator) func() (ID, error) { return g.Next },
		"NextContext": func(g *snowflake.Generator) func() (ID, error) {
			return func() (ID, error) { return g.NextContext(ctx) }
		},
		"Block":  func(g *snowflake.Generator) func() (ID, error) { return g.Block().Next },
		"strict": func(g *snowflake.Generator) func() (ID, error) { return g.Next },
	} {
		opts := []snowflake.Option{}
		if name == "strict" {
			opts = append(opts, snowflake.WithStrictWall())
		}
		call := make(generator(t, snowflaketest.NewClock(noon).Node(7), opts...))
		for i := range want {
			if id, err := call(); id != want[i] || err != nil {
				t.Fatalf("%s %d: %d, %v; want %d", name, i, id, err, want[i])
			}
		}
	}
}

func TestIDsOfEachLayout(t *testing.T) {
	for name, l := range layouts {
		clock := snowflaketest.NewClock(noon)
		g := generator(t, clock.Node(5), snowflake.WithLayout(l))
		per := 1 << l.SequenceBits
		last := ID(0)
		for i := range 3 * per {
			id := next(t, g)
			p := l.Decompose(id)
			if p.Node != 5 || p.Sequence != i%per || id <= last {
				t.Fatalf("%s %d: got %+v, %d after %d, want node 5, the next sequence number and a larger ID", name, i, p, id, last)
			}
			if age := clock.Wall().Sub(p.Time); age < 0 || age >= l.Tick {
				t.Fatalf("%s: got a stamp of %v ago, want one of this tick", name, age)
			}
			last = id
		}
	}
}

func TestNewRefuses(t *testing.T) {
	big := free()
	big.Nodes = 1025
	bound := snowflake.NewTimeline(nil)
	if err := bound.Bind(big); err != nil {
		t.Fatal(err)
	}
	taken := fixed(1)
	generator(t, taken, snowflake.WithLayout(snowflake.Wide16()))
	for want, f := range map[string]func() (*snowflake.Generator, error){
		"a pool of 1025 node IDs does not fit a layout with 10 node bits (1024); it needs 11, in every process that makes IDs of this pool": func() (*snowflake.Generator, error) {
			return snowflake.New(bound)
		},
		"a pool of 1025 node IDs does not fit": func() (*snowflake.Generator, error) { return snowflake.New(fixed(1024)) },
		"another layout":                       func() (*snowflake.Generator, error) { return snowflake.New(taken) },
		"WithMaxWait(-1s)": func() (*snowflake.Generator, error) {
			return snowflake.New(fixed(1), snowflake.WithMaxWait(-time.Second))
		},
		"WithMaxBackward(25h0m0s): use 0 to 24h0m0s": func() (*snowflake.Generator, error) {
			return snowflake.New(fixed(1), snowflake.WithMaxBackward(25*time.Hour))
		},
		"WithCatchUp(2s): use 0 to 1s": func() (*snowflake.Generator, error) {
			return snowflake.New(fixed(1), snowflake.WithCatchUp(2*time.Second))
		},
		"WithRandomSequence(33): use 0 to 32": func() (*snowflake.Generator, error) {
			return snowflake.New(fixed(1), snowflake.WithLayout(snowflake.JS53()), snowflake.WithRandomSequence(33))
		},
	} {
		g, err := f()
		if g != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %s", g, err, want)
		}
	}
	if _, err := snowflake.New(bound, snowflake.WithLayout(snowflake.Wide16())); err != nil {
		t.Errorf("a fitting layout after one that did not fit: got %v", err)
	}
	if g2, err := snowflake.New(taken, snowflake.WithLayout(snowflake.Wide16())); g2 == nil || err != nil {
		t.Errorf("the same layout again: got %v", err)
	}
}

func TestBindRefuses(t *testing.T) {
	tl, g := bind(t, newFrozen(), free())
	first := next(t, g)
	for want, change := range map[string]func(*snowflake.Span){
		"node ID 1024 is not in a pool of 1024 (0 to 1023)": func(s *snowflake.Span) { s.NodeID = 1024 },
		"node ID -1 is out of range":                        func(s *snowflake.Span) { s.NodeID = -1 },
		"a pool of 65536 node IDs does not fit":             func(s *snowflake.Span) { s.Nodes = 65536 },
		"before it begins":                                  func(s *snowflake.Span) { s.NotBefore, s.Until = noon, noon.Add(-1) },
		"node ID 512 does not fit the 9 node bits":          func(s *snowflake.Span) { s.NodeID, s.Eras = 512, snowflake.Eras{{NodeBits: 9}} },
		"an era with 17 node bits":                          func(s *snowflake.Span) { s.Eras = snowflake.Eras{{NodeBits: 17}} },
		"an era with 0 node bits":                           func(s *snowflake.Span) { s.Eras = snowflake.Eras{{}} },
		"follows one that begins": func(s *snowflake.Span) {
			s.Eras = snowflake.Eras{{From: noon, NodeBits: 10}, {From: noon, NodeBits: 11}}
		},
	} {
		s := free()
		change(&s)
		if err := tl.Bind(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if id := next(t, g); id != first+1 {
		t.Errorf("a refused Bind changed something: %d after %d", id, first)
	}
}

func TestTryNextAnswersAtOnce(t *testing.T) {
	clock := newFrozen()
	clock.asleep = func(time.Duration) { t.Error("the call waited") }
	_, g := bind(t, clock, free())
	last := useUp(t, g)
	if last.Sequence() != 4095 {
		t.Fatalf("busy after %d, want 4095", last.Sequence())
	}
	for range 10_000 { // a refused call uses up no sequence number
		if id, err := g.TryNext(); id != 0 || err != snowflake.ErrBusy {
			t.Fatalf("got %d, %v, want 0 and ErrBusy", id, err)
		}
	}
	clock.advance(time.Millisecond)
	if id, err := g.TryNext(); id != last+1<<22-4095 || err != nil {
		t.Errorf("got %d after %d, %v, want the first ID of the next millisecond", id, last, err)
	}
	if s := g.Stats(); s.Issued != 4097 || s.Refused != 10_001 {
		t.Errorf("got %+v, want Issued 4097 and Refused 10,001", s)
	}
}

// TryNext reads the clock, and then other callers move on to the next tick. TryNext does
// not return ErrBusy: the call was slow, but IDs are left.
func TestTryNextIsNotBusyBehindAnother(t *testing.T) {
	clock := newFrozen()
	_, g := bind(t, clock, free())
	var other ID
	clock.onRead(func() { clock.advance(ms); other = next(t, g) })
	if id, err := g.TryNext(); err != nil || id != other+1 {
		t.Errorf("%d, %v; want %d", id, err, other+1)
	}
}

// Once callers request no more IDs than a tick contains, stamps are in the current tick,
// and the unused ticks of the catch-up window are abandoned.
func TestStampsArePresentAfterSaturation(t *testing.T) {
	clock := newFrozen()
	_, g := bind(t, clock, free())
	useUp(t, g)
	clock.asleep = clock.advance
	next(t, g) // waits: saturated
	clock.advance(10 * ms)
	if age := clock.Wall().Sub(next(t, g).Time()); age != 10*ms {
		t.Errorf("at saturation: got a stamp %v old, want 10 ms", age)
	}
	for _, d := range []time.Duration{17 * ms, ms, ms} {
		clock.advance(d)
		if age := clock.Wall().Sub(next(t, g).Time()); age != 0 {
			t.Errorf("%v later: got a stamp %v old, want 0", d, age)
		}
	}
}

// Of all waiting callers, only one sleeps. It then wakes the others.
func TestOneSleepsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newFrozen()
		sleeping, sleeps := 0, 0
		clock.asleep = func(d time.Duration) {
			if sleeping++; sleeping > 1 {
				t.Error("two sleep")
			}
			sleeps++
			time.Sleep(d)
			clock.advance(d)
			sleeping--
		}
		_, g := bind(t, clock, free())
		useUp(t, g)
		var ids [50]ID
		for i := range ids {
			go func() { ids[i] = next(t, g) }()
		}
		synctest.Wait()
		time.Sleep(10 * ms)
		synctest.Wait()
		if slices.Contains(ids[:], 0) || sleeps > 3 {
			t.Errorf("got %d sleeps and the IDs %v, want at most 3 sleeps", sleeps, ids)
		}
	})
}

// With a stopped clock, Next gives up, and NextContext returns when its context ends.
// Neither of them spins, since spinning would hang a synctest bubble.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newFrozen()
		clock.asleep = time.Sleep
		_, g := bind(t, clock, free(), snowflake.WithMaxWait(50*time.Millisecond))
		useUp(t, g)
		start := time.Now()
		if id, err := g.Next(); id != 0 || err != snowflake.ErrBusy {
			t.Errorf("Next: got %d, %v, want 0 and ErrBusy", id, err)
		}
		if took := time.Since(start); took > 51*time.Millisecond {
			t.Errorf("Next waited %v, want at most 51 ms", took)
		}
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if id, err := g.NextContext(ctx); id != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("NextContext: got %d, %v, want 0 and DeadlineExceeded", id, err)
		}
		if took := time.Since(start); took > time.Second+5*time.Millisecond {
			t.Errorf("NextContext waited %v, want about 1 s", took)
		}
		buf := make([]ID, 10)
		if n, err := g.NextN(ctx, buf); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("NextN: got %d, %v, want 0 and DeadlineExceeded", n, err)
		}
	})
}

func TestNextNSaysHowManyAreValid(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clock := newFrozen()
	clock.asleep = func(time.Duration) { cancel() }
	_, g := bind(t, clock, free())
	buf := make([]ID, 5000)
	n, err := g.NextN(ctx, buf)
	if n != 4096 || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %d, %v, want 4096 and Canceled", n, err)
	}
	for i, id := range buf[:n] {
		if id.Sequence() != i {
			t.Fatalf("ID %d: got sequence %d", i, id.Sequence())
		}
	}
}

func TestTheEndOfTheTimeField(t *testing.T) {
	l := snowflake.Default()
	l.TimeBits, l.Epoch = 10, noon.Add(-time.Second) // 24 ms are left
	clock := snowflaketest.NewClock(noon)
	g := generator(t, clock.Node(7), snowflake.WithLayout(l))
	var last ID
	for {
		id, err := g.Next()
		if err != nil {
			if err != snowflake.ErrTimeOverflow || id != 0 {
				t.Errorf("got %d, %v, want 0 and ErrTimeOverflow", id, err)
			}
			break
		}
		last = id
	}
	if p := l.Decompose(last); last < 0 || p.Sequence != 4095 || !p.Time.Equal(l.Expires().Add(-time.Millisecond)) {
		t.Errorf("last ID: got %+v, want the last sequence number of the last millisecond", p)
	}
	clock.Advance(time.Hour)
	if id, err := g.Next(); id != 0 || err != snowflake.ErrTimeOverflow {
		t.Errorf("an hour later: got %d, %v, want 0 and ErrTimeOverflow", id, err)
	}
}

// If the node ID is narrow, the free node bits extend the sequence. IDs grow, and IDs of
// two node IDs are never equal. IDs keep growing when a term with a different width
// begins.
func TestNarrowNode(t *testing.T) {
	for name, l := range layouts {
		seen := map[ID]bool{}
		for node := range 4 {
			clock := snowflaketest.NewClock(noon)
			tl := clock.Node(0).Timeline()
			g := generator(t, tl, snowflake.WithLayout(l))
			last := ID(0)
			for width := 2; width <= 4; width++ {
				s := free()
				s.NodeID, s.Nodes, s.Eras = node, 4, snowflake.Eras{{NodeBits: width}}
				if err := tl.Bind(s); err != nil {
					t.Fatal(err)
				}
				per := min(1<<(int(l.SequenceBits)+int(l.NodeBits)-width), 20_000)
				ids := make([]ID, per)
				before := clock.Monotonic()
				if n, err := g.NextN(t.Context(), ids); n != per || err != nil {
					t.Fatal(n, err)
				}
				if took := clock.Monotonic() - before; took > l.Tick {
					t.Errorf("%s: %d IDs at width %d took %v, want at most a tick", name, per, width, took)
				}
				for _, id := range ids {
					field := l.Decompose(id).Node & (1<<width - 1)
					if id <= last || seen[id] || field != node {
						t.Fatalf("%s, node %d, width %d: %d after %d, node field %d, seen %v", name, node, width, id, last, field, seen[id])
					}
					seen[id], last = true, id
				}
			}
		}
	}
}

func TestRandomSequence(t *testing.T) {
	clock := newFrozen()
	_, g := bind(t, clock, free(), snowflake.WithRandomSequence(100))
	starts := map[int]bool{}
	for range 1000 {
		clock.advance(time.Millisecond)
		id := next(t, g)
		starts[id.Sequence()] = true
		if id.Sequence() >= 100 || next(t, g) != id+1 {
			t.Fatalf("got sequence %d, want below 100 and then consecutive IDs", id.Sequence())
		}
	}
	if len(starts) < 90 {
		t.Errorf("got only %d starts", len(starts))
	}
	if s := g.Stats(); s.Issued != 2000 {
		t.Errorf("got %+v, want Issued 2000", s)
	}
}

func TestBlock(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	a, b := g.Block(), g.Block()
	seen := map[ID]bool{}
	lastOf := map[*snowflake.Block]ID{}
	for i := range 5000 {
		for _, block := range []*snowflake.Block{a, b} {
			id, err := block.Next()
			if err != nil || seen[id] || id <= lastOf[block] || !id.Time().Equal(clock.Wall().Truncate(time.Millisecond)) {
				t.Fatalf("ID %d: got %v of %v, %v, want a new, larger one of this millisecond", i, id, id.Time(), err)
			}
			seen[id], lastOf[block] = true, id
		}
		clock.advance(2 * time.Microsecond)
	}
	if s := g.Stats(); s.Issued < 10_000 || s.Issued > 10_000+2*256 {
		t.Errorf("%+v", s)
	}
	last := tl.Seal()
	for _, block := range []*snowflake.Block{a, b} { // the remaining tickets of both blocks are void
		if id, err := block.Next(); err != snowflake.ErrFenced || id != 0 {
			t.Errorf("got %d, %v, want 0 and ErrFenced", id, err)
		}
		if lastOf[block].Time().After(last) {
			t.Errorf("got an ID of %v, want none after the seal at %v", lastOf[block].Time(), last)
		}
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, l := range layouts { // with few IDs per tick, some calls have to wait
		g := generator(t, fixed(7), snowflake.WithLayout(l))
		strict := generator(t, fixed(8), snowflake.WithLayout(l), snowflake.WithStrictWall())
		block, buf := g.Block(), make([]ID, 100)
		for call, f := range map[string]func(){
			"Next":        func() { _, _ = g.Next() },
			"NextContext": func() { _, _ = g.NextContext(ctx) },
			"TryNext":     func() { _, _ = g.TryNext() },
			"NextN":       func() { _, _ = g.NextN(ctx, buf) },
			"Block.Next":  func() { _, _ = block.Next() },
			"strict Next": func() { _, _ = strict.Next() },
		} {
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%s: %s: got %v allocations, want none", name, call, n)
			}
		}
	}
}

// wideSequence is a layout whose sequence is never used up in a tick, so that benchmarks
// measure the code and not the layout.
var wideSequence = snowflake.Layout{Epoch: snowflake.Default().Epoch, Tick: ms, TimeBits: 41, NodeBits: 0, SequenceBits: 22}

func BenchmarkNext(b *testing.B) {
	for name, opts := range map[string][]snowflake.Option{"": nil, "strict": {snowflake.WithStrictWall()}} {
		b.Run(name, func(b *testing.B) {
			g := generator(b, fixed(0), append(opts, snowflake.WithLayout(wideSequence))...)
			for b.Loop() {
				if _, err := g.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNextContext(b *testing.B) {
	g := generator(b, fixed(0), snowflake.WithLayout(wideSequence))
	for b.Loop() {
		if _, err := g.NextContext(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTryNext(b *testing.B) {
	g := generator(b, fixed(0), snowflake.WithLayout(wideSequence))
	for b.Loop() {
		if _, err := g.TryNext(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNextBlock(b *testing.B) {
	block := generator(b, fixed(0), snowflake.WithLayout(wideSequence)).Block()
	for b.Loop() {
		if _, err := block.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNextParallel(b *testing.B) {
	g := generator(b, fixed(0), snowflake.WithLayout(wideSequence))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Next(); err != nil {
				b.Error(err)
			}
		}
	})
}
