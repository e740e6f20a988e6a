package snowflake_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

func draw(t testing.TB, g *snowflake.Generator, want uint64, shares int, back time.Duration) snowflake.Run {
	t.Helper()
	r, err := g.Draw(t.Context(), want, shares, back)
	if err != nil || r.Count < 1 || r.Count > want || r.Left <= 0 {
		t.Fatalf("Draw(%d, %d, %v): got %+v, %v", want, shares, back, r, err)
	}
	return r
}

// stampOf returns the time of a run's i-th ID.
func stampOf(r snowflake.Run, i uint64) time.Time { return r.Layout.Decompose(r.ID(i)).Time }

// The IDs of a run are from milliseconds that have begun and that are no older than
// requested.
func TestDrawTakesWhatHasBegun(t *testing.T) {
	clock := newFrozen()
	_, g := bind(t, clock, free())
	first := next(t, g)
	clock.advance(time.Minute)
	r := draw(t, g, math.MaxInt32, 1, 250*ms)
	if got := stampOf(r, 0); !got.Equal(noon.Add(time.Minute - 250*ms)) {
		t.Errorf("the run begins at %v, want 250 ms before the clock", got)
	}
	if got := stampOf(r, r.Count-1); !got.Equal(clock.Wall()) {
		t.Errorf("the run ends at %v, want the clock's %v", got, clock.Wall())
	}
	if r.Count != 251*4096 || r.ID(0) <= first {
		t.Errorf("got %+v", r)
	}
	clock.advance(ms)
	if id := next(t, g); id <= r.ID(r.Count-1) {
		t.Errorf("ID %d after a run that ends with %d", id, r.ID(r.Count-1))
	}
	clock.advance(ms)
	if after := draw(t, g, 10, 1, 250*ms); after.ID(0) <= r.ID(r.Count-1) {
		t.Errorf("a run begins with %d after one that ends with %d", after.ID(0), r.ID(r.Count-1))
	}
}

// Each of n callers gets some IDs, although no caller gives any IDs back.
func TestDrawShares(t *testing.T) {
	clock := newFrozen()
	_, g := bind(t, clock, free())
	clock.advance(time.Minute)
	var all []ID
	for i := range 16 {
		r := draw(t, g, math.MaxInt32, 16, 250*ms)
		if r.Count < 251*4096/16/3 {
			t.Errorf("caller %d got %d of %d", i, r.Count, 251*4096)
		}
		all = append(all, r.ID(0), r.ID(r.Count-1))
	}
	if !slices.IsSorted(all) {
		t.Errorf("runs overlap: %d", all)
	}
}

// A release never reports a time before the end of a run that was drawn, however many of
// the run's IDs were used.
func TestNoReleaseBelowARun(t *testing.T) {
	for _, l := range []snowflake.Layout{snowflake.Default(), snowflake.Sonyflake(), snowflake.JS53()} {
		clock := newFrozen()
		s := free()
		s.Nodes = 8
		tl, g := bind(t, clock, s, snowflake.WithLayout(l))
		clock.advance(time.Minute)
		for _, want := range []uint64{1, 100, 1_000_000} {
			r := draw(t, g, want, 1, 250*ms)
			end := stampOf(r, r.Count-1)
			if last := tl.Seal(); last.Before(end) {
				t.Errorf("%v: released from %v on, before the end %v of a run", l, last, end)
			}
			s.NotBefore = end // the next span may begin as early as the end of the run
			if err := tl.Bind(s); err != nil {
				t.Fatal(err)
			}
			clock.advance(100 * ms)
		}
	}
}

// A run can be used only until the lease or the span ends, whichever comes first.
func TestDrawLeft(t *testing.T) {
	clock := newFrozen()
	s := free()
	s.Until, s.Deadline = noon.Add(10*time.Second), clock.Monotonic()+8*time.Second
	tl, g := bind(t, clock, s)
	if r := draw(t, g, 1, 1, 0); r.Left != 8*time.Second {
		t.Errorf("left: %v, want 8s", r.Left)
	}
	tl.Extend(s.Until, s.Deadline+time.Minute)
	if r := draw(t, g, 1, 1, 0); r.Left != 10*time.Second+ms {
		t.Errorf("left: %v, want 10.001s", r.Left)
	}
	clock.advance(10*time.Second + ms)
	if r, err := g.Draw(t.Context(), 1, 1, 250*ms); !errors.Is(err, snowflake.ErrFenced) {
		t.Errorf("after the span's end: got %+v, %v, want ErrFenced", r, err)
	}
}

// Draw does not return a run if the term is sealed, or its deadline passes, during the
// call.
func TestDrawAcrossAFence(t *testing.T) {
	clock := newFrozen()
	s := free()
	s.Deadline = clock.Monotonic() + time.Second
	tl, g := bind(t, clock, s)
	clock.onRead(func() { clock.advance(2 * time.Second) })
	if r, err := g.Draw(t.Context(), 1, 1, 250*ms); !errors.Is(err, snowflake.ErrFenced) {
		t.Errorf("across the deadline: got %+v, %v, want ErrFenced", r, err)
	}
	if err := tl.Bind(free()); err != nil {
		t.Fatal(err)
	}
	clock.onRead(func() { tl.Close() })
	if r, err := g.Draw(t.Context(), 1, 1, 250*ms); !errors.Is(err, snowflake.ErrClosed) {
		t.Errorf("across a close: got %+v, %v, want ErrClosed", r, err)
	}
}

// The IDs of a run have the width of the run's era. The run ends before the next era,
// and the next run begins in that era.
func TestDrawEndsWithTheEra(t *testing.T) {
	clock := newFrozen()
	s := free()
	change := noon.Add(100 * ms)
	s.Eras = snowflake.Eras{{From: noon.Add(-time.Hour), NodeBits: 3}, {From: change, NodeBits: 10}}
	_, g := bind(t, clock, s)
	clock.advance(200 * ms)
	r := draw(t, g, math.MaxInt32, 1, 250*ms)
	if last := s.Eras.Decompose(r.Layout, r.ID(r.Count-1)); r.NodeBits != 3 || last.Node != 7 || !last.Time.Before(change) {
		t.Errorf("got %+v, ending with %+v, want 3 node bits before %v", r, last, change)
	}
	r = draw(t, g, math.MaxInt32, 1, 250*ms)
	if first := s.Eras.Decompose(r.Layout, r.ID(0)); r.NodeBits != 10 || first.Node != 7 || first.Time.Before(change) {
		t.Errorf("got %+v, beginning with %+v, want 10 node bits from %v on", r, first, change)
	}
}

// If the generator is saturated, a caller of Draw waits in the queue for the next tick.
// It gets no more than its share of the tick, and no ID that another caller gets.
func TestDrawWaitsForATick(t *testing.T) {
	clock := newFrozen()
	_, g := bind(t, clock, free())
	last := useUp(t, g)
	clock.asleep = func(time.Duration) { clock.advance(ms) }
	r := draw(t, g, math.MaxInt32, 4, 250*ms)
	if r.Count != 1024 || r.ID(0) != last+1<<22-4095 {
		t.Errorf("got %+v after %d, want a quarter of the next tick", r, last)
	}
	ctx, cancel := context.WithCancel(t.Context())
	useUp(t, g)
	clock.asleep = func(time.Duration) { cancel() }
	if r, err := g.Draw(ctx, 1, 1, 250*ms); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %+v, %v, want Canceled", r, err)
	}
}

// Long after the end of the layout's time field, Draw returns no run, neither from ticks
// that wrapped around nor from old ticks.
func TestDrawPastTheEnd(t *testing.T) {
	clock := newFrozen()
	l := snowflake.Layout{Epoch: noon.Add(-time.Second), Tick: ms, TimeBits: 11, NodeBits: 10, SequenceBits: 12}
	_, g := bind(t, clock, free(), snowflake.WithLayout(l))
	next(t, g)
	for range 3 {
		clock.advance(2 * time.Second)
		if r, err := g.Draw(t.Context(), 1, 1, 250*ms); !errors.Is(err, snowflake.ErrTimeOverflow) {
			t.Errorf("got %+v, %v, want ErrTimeOverflow", r, err)
		}
	}
}

// The tickets of a run that waits for the next tick become void when the wall clock is
// set back. Other callers then get IDs of that tick, and the run has none of them, even if
// the ticket that the call draws in their place looks like the last of the void ones.
func TestVoidTicketsAreNoRun(t *testing.T) {
	for others := range 4 {
		clock := newFrozen()
		tl, g := bind(t, clock, free(), snowflake.WithMaxBackward(0))
		useUp(t, g)
		issued := tl.Stats().Issued
		seen := map[ID]bool{}
		clock.asleep = func(time.Duration) {
			clock.asleep = nil
			clock.step(-5 * ms)
			tl.Now() // the anchor follows the clock
			clock.advance(6 * ms)
			for range others {
				seen[next(t, g)] = true
			}
		}
		r := draw(t, g, 3, 1, 0)
		for i := range r.Count {
			if seen[r.ID(i)] {
				t.Errorf("after %d IDs of other callers, ID %d of %d of the run is one of them", others, i+1, r.Count)
			}
		}
		if got, want := tl.Stats().Issued-issued, uint64(others)+r.Count; got != want {
			t.Errorf("after %d IDs of other callers and a run of %d: got %d IDs in all", others, r.Count, got)
		}
	}
}
