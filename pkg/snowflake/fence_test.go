package snowflake_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

const ms = time.Millisecond

// calls contains all ways to request an ID, for tests of rules that apply to each of
// them.
var calls = map[string]func(*snowflake.Generator) func() (ID, error){
	"Next": func(g *snowflake.Generator) func() (ID, error) { return g.Next },
	"NextContext": func(g *snowflake.Generator) func() (ID, error) {
		return func() (ID, error) { return g.NextContext(context.Background()) }
	},
	"TryNext": func(g *snowflake.Generator) func() (ID, error) { return g.TryNext },
	"NextN": func(g *snowflake.Generator) func() (ID, error) {
		return func() (ID, error) {
			var one [1]ID
			_, err := g.NextN(context.Background(), one[:])
			return one[0], err
		}
	},
	"Block": func(g *snowflake.Generator) func() (ID, error) { return g.Block().Next },
	"Draw": func(g *snowflake.Generator) func() (ID, error) {
		return func() (ID, error) {
			r, err := g.Draw(context.Background(), 1, 1, 0)
			if err != nil {
				return 0, err
			}
			return r.ID(0), nil
		}
	},
}

func forEachCall(t *testing.T, f func(t *testing.T, call func(*snowflake.Generator) func() (ID, error))) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { f(t, call) })
	}
}

func wantFenced(t *testing.T, call func() (ID, error), want error) {
	t.Helper()
	if id, err := call(); id != 0 || err != want {
		t.Fatalf("%d, %v; want %v", id, err, want)
	}
}

func mustMake(t *testing.T, call func() (ID, error)) ID {
	t.Helper()
	id, err := call()
	if err != nil || id <= 0 {
		t.Fatalf("got %d, %v, want more than 0", id, err)
	}
	return id
}

func TestNothingBeforeTheFirstBind(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := newFrozen()
		tl := snowflake.NewTimeline(clock)
		f := call(generator(t, tl))
		wantFenced(t, f, snowflake.ErrFenced)
		if last := tl.Seal(); !last.IsZero() {
			t.Errorf("sealed at %v, want the zero time", last)
		}
		if now := tl.Now(); !now.Equal(clock.Wall()) {
			t.Errorf("now is %v, want the wall clock", now)
		}
		if err := tl.Bind(free()); err != nil {
			t.Fatal(err)
		}
		mustMake(t, f)
	})
}

// Stamps are fenced by their value: whatever the clocks show, no stamp is later than
// Until, and none is at or before NotBefore. In this test the wall clock is half a second
// behind, so the fence by the wall clock has no effect.
func TestFenceByValue(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := newFrozen()
		clock.asleep = clock.advance
		s := free()
		s.NotBefore, s.Until = noon.Add(3*ms), noon.Add(5*ms)
		tl, g := bind(t, clock, s, snowflake.WithCatchUp(0))
		f := call(g)
		if id, err := f(); err == nil && !id.Time().Equal(noon.Add(4*ms)) || err != nil && err != snowflake.ErrBusy {
			t.Errorf("first stamp: got %v, %v, want noon + 4 ms or ErrBusy", id.Time(), err)
		}
		clock.advance(noon.Add(4 * ms).Sub(clock.Wall()))
		mustMake(t, f)
		clock.step(-time.Second / 2)
		clock.advance(ms + ms/2)
		if id := mustMake(t, f); !id.Time().Equal(noon.Add(5 * ms)) {
			t.Errorf("the last millisecond got %v, want noon + 5 ms", id.Time())
		}
		clock.advance(ms/2 - 1)
		mustMake(t, f)
		clock.advance(1)
		wantFenced(t, f, snowflake.ErrFenced)
		if wall := clock.Wall(); !wall.Before(s.Until) {
			t.Fatalf("the wall clock is at %v, so this test proves nothing", wall)
		}
		tl.Extend(noon.Add(6*ms), 0)
		if id := mustMake(t, f); !id.Time().Equal(noon.Add(6 * ms)) {
			t.Errorf("after a renewal: got %v, want noon + 6 ms", id.Time())
		}
		tl.Extend(noon, 0) // neither the end nor the deadline moves back
		mustMake(t, f)
		clock.advance(ms)
		wantFenced(t, f, snowflake.ErrFenced)
	})
}

// With a tick of 10 ms, a tick that is only partly in the span is not used.
func TestFenceByValueInWholeTicks(t *testing.T) {
	l := snowflake.Sonyflake()
	clock := newFrozen()
	s := free()
	s.NotBefore, s.Until = noon.Add(3*ms), noon.Add(28*ms)
	tl, g := bind(t, clock, s, snowflake.WithLayout(l))
	wantFenced(t, g.TryNext, snowflake.ErrBusy) // another holder may have used this tick
	clock.advance(10 * ms)
	if p := l.Decompose(next(t, g)); !p.Time.Equal(noon.Add(10 * ms)) {
		t.Errorf("the first tick is %v, want noon + 10 ms", p.Time)
	}
	clock.advance(10 * ms)
	wantFenced(t, g.Next, snowflake.ErrFenced)
	if last := tl.Seal(); !last.Equal(noon.Add(19 * ms)) {
		t.Errorf("sealed at %v, want noon + 19 ms", last)
	}
}

// A batch ends where the span ends, even in the catch-up window.
func TestFenceByValueInABatch(t *testing.T) {
	clock := newFrozen()
	s := free()
	s.Until = noon.Add(5 * ms)
	_, g := bind(t, clock, s)
	useUp(t, g)
	clock.asleep = clock.advance
	next(t, g) // waits: saturated
	clock.step(-100 * ms)
	clock.advance(9 * ms) // the clock of stamps is now at 10 ms
	buf := make([]ID, 10*4096)
	n, err := g.NextN(t.Context(), buf)
	if err != snowflake.ErrFenced || n != 5*4096-1 {
		t.Errorf("got %d IDs, %v, want 5 × 4,096 − 1 and ErrFenced", n, err)
	}
	for _, id := range buf[:n] {
		if id.Time().After(s.Until) {
			t.Fatalf("got a stamp of %v, want none after the span", id.Time())
		}
	}
}

// A caller is about to queue for the last millisecond of the span. At that moment, the
// millisecond begins and other callers take all of its IDs. So the caller's ticket is
// outside the span.
func TestFenceByValueInTheQueue(t *testing.T) {
	l := snowflake.Default()
	l.SequenceBits = 1
	clock := newFrozen()
	s := free()
	s.Until = noon.Add(ms)
	_, g := bind(t, clock, s, snowflake.WithLayout(l))
	useUp(t, g)
	clock.step(-100 * ms) // so that the fence by the wall clock has no effect
	clock.asleep = clock.advance
	reads := 0
	clock.beforeRead = func() {
		if reads++; reads < 4 { // read by Next, twice by reserve, and before the draw
			return
		}
		clock.beforeRead = nil
		clock.advance(ms)
		useTwo := []ID{next(t, g), next(t, g)}
		if at := l.Decompose(useTwo[1]).Time; !at.Equal(s.Until) {
			t.Errorf("the last one is of %v: this test proves nothing", at)
		}
	}
	wantFenced(t, g.Next, snowflake.ErrFenced)
	if reads != 4 {
		t.Errorf("%d readings: this test proves nothing", reads)
	}
}

// If a call begins in time, but the deadline passes while it waits, the call is refused.
func TestDeadlinePassesDuringAWait(t *testing.T) {
	clock := newFrozen()
	clock.asleep = clock.advance
	s := free()
	s.Deadline = clock.Monotonic() + ms/2
	_, g := bind(t, clock, s)
	useUp(t, g)
	wantFenced(t, g.Next, snowflake.ErrFenced)
}

// Calls are fenced by the monotonic clock: a call that begins at the deadline fails, even
// in a tick in which an earlier call succeeded.
func TestFenceByMonotonicClock(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := newFrozen()
		s := free()
		s.Deadline = clock.Monotonic() + ms/2
		tl, g := bind(t, clock, s)
		f := call(g)
		mustMake(t, f)
		clock.advance(ms/2 - 1)
		mustMake(t, f)
		clock.advance(1)
		wantFenced(t, f, snowflake.ErrFenced)
		tl.Extend(time.Time{}, clock.Monotonic()+1)
		mustMake(t, f)
		clock.advance(1)
		wantFenced(t, f, snowflake.ErrFenced)
		tl.Extend(time.Time{}, 0)
		wantFenced(t, f, snowflake.ErrFenced)
	})
}

// A block that was filled before the deadline yields no IDs after the deadline.
func TestFenceHoldsForWhatABlockHasLeft(t *testing.T) {
	clock := newFrozen()
	s := free()
	s.Deadline = clock.Monotonic() + ms/2
	_, g := bind(t, clock, s)
	b := g.Block()
	mustMake(t, b.Next)
	clock.advance(ms / 2)
	wantFenced(t, b.Next, snowflake.ErrFenced)
}

// Calls are fenced by the wall clock, which is read once per tick, or on each call in
// strict mode. In this test it is 8 ms ahead, which is too little to move the anchor, so
// the fences by value and by the monotonic clock have no effect.
func TestFenceByWallClock(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		for _, strict := range []bool{false, true} {
			clock := newFrozen()
			s := free()
			s.Until = noon.Add(7 * ms)
			var opts []snowflake.Option
			if strict {
				opts = append(opts, snowflake.WithStrictWall())
			}
			tl, g := bind(t, clock, s, opts...)
			f := call(g)
			mustMake(t, f)
			clock.step(8 * ms)
			if strict || strings.HasSuffix(t.Name(), "/Draw") { // Draw reads the wall clock each time
				wantFenced(t, f, snowflake.ErrFenced)
			} else {
				mustMake(t, f)
			}
			clock.advance(ms)
			wantFenced(t, f, snowflake.ErrFenced)
			tl.Extend(noon.Add(20*ms), 0)
			mustMake(t, f)
		}
	})
}

// In strict mode, a block also reads the wall clock for its remaining tickets.
func TestFenceByWallClockInAStrictBlock(t *testing.T) {
	clock := newFrozen()
	s := free()
	s.Until = noon.Add(7 * ms)
	_, g := bind(t, clock, s, snowflake.WithStrictWall())
	b := g.Block()
	mustMake(t, b.Next)
	clock.step(8 * ms)
	wantFenced(t, b.Next, snowflake.ErrFenced)
}

// While a generator stays saturated, each tick begins with a caller that has waited, or
// has passed and is within the catch-up window. It never begins with a new caller. Even
// so, the fence by the wall clock works.
func TestFenceByWallClockWhenSaturated(t *testing.T) {
	t.Run("a caller who waits", func(t *testing.T) {
		clock := newFrozen()
		s := free()
		s.Until = noon.Add(7 * ms)
		_, g := bind(t, clock, s)
		useUp(t, g)
		clock.asleep = func(d time.Duration) { clock.advance(d); clock.step(8 * ms) }
		wantFenced(t, g.Next, snowflake.ErrFenced)
	})
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) { // in the catch-up window
		clock := newFrozen()
		s := free()
		s.Until = noon.Add(20 * ms)
		_, g := bind(t, clock, s)
		f := call(g)
		useUp(t, g)
		clock.asleep = clock.advance
		next(t, g) // waits, so the generator is now treated as saturated
		clock.advance(10 * ms)
		for i := range 4096 * 5 { // old ticks are used up one after the other, without a wait
			if id := mustMake(t, f); !id.Time().Before(clock.Wall().Add(-ms)) {
				t.Fatalf("%d: %v at %v: this test proves nothing", i, id.Time(), clock.Wall())
			}
		}
		clock.step(9 * ms) // with the 1 ms from before, this is 20 ms after noon; one more tick would be outside the span
		clock.advance(ms)
		for i := range 4096 + 1 {
			if _, err := f(); err != nil {
				if err != snowflake.ErrFenced {
					t.Fatal(err)
				}
				return
			} else if i == 4096 {
				t.Fatal("a whole tick went by")
			}
		}
	})
}

// The following tests are for mistakes in earlier prototypes.

// A refused call uses up no sequence number. Otherwise the state of a fenced generator
// that is called in a loop would run ahead, and the generator could not stamp for hours
// after a renewal.
func TestRefusedCallsUseNothingUp(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := newFrozen()
		s := free()
		s.Until, s.Deadline = noon, clock.Monotonic()+ms/2
		tl, g := bind(t, clock, s)
		f := call(g)
		for range 4096 {
			next(t, g)
		}
		refuse := func(why string) {
			for range 10_000 {
				if id, err := f(); err == nil {
					t.Fatalf("%s: got ID %d, want an error", why, id)
				}
			}
		}
		refuse("the last millisecond is used up")
		clock.advance(ms / 2)
		refuse("the deadline has passed")
		tl.Extend(noon, clock.Monotonic()+time.Hour)
		refuse("the last millisecond is used up still")
		clock.advance(ms / 2)
		refuse("the span has ended")
		tl.Seal()
		refuse("sealed")
		s.NotBefore, s.Until, s.Deadline = noon, noon.Add(time.Hour), clock.Monotonic()+time.Hour
		if err := tl.Bind(s); err != nil {
			t.Fatal(err)
		}
		if id := mustMake(t, f); !id.Time().Equal(clock.Wall()) || id.Sequence() != 0 {
			t.Errorf("next ID: got %v %d, want the wall clock and 0", id.Time(), id.Sequence())
		}
	})
}

// Callers that give up do not push the state more than one tick ahead of the clock.
func TestCancelledCallsUseLittleUp(t *testing.T) {
	clock := newFrozen()
	_, g := bind(t, clock, free())
	useUp(t, g)
	for range 3 * 4096 {
		ctx, cancel := context.WithCancel(t.Context())
		clock.asleep = func(time.Duration) { cancel() }
		if _, err := g.NextContext(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want Canceled", err)
		}
	}
	clock.asleep = nil
	clock.advance(2 * ms)
	if id, err := g.TryNext(); err != nil || !id.Time().Equal(clock.Wall()) {
		t.Errorf("two ticks later: got %v, %v, want the wall clock", id.Time(), err)
	}
	if s := g.Stats(); s.Issued != 4096+1 {
		t.Errorf("%+v", s)
	}
}

// In the last millisecond of a span, which may be partial, the deadline in nanoseconds
// and the span's end in milliseconds disagree. Calls in that millisecond are fenced and
// do not loop.
func TestPartialLastMillisecond(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := newFrozen()
		s := free()
		s.Until, s.Deadline = noon, clock.Monotonic()+ms+ms/2
		_, g := bind(t, clock, s)
		f := call(g)
		mustMake(t, f)
		clock.advance(ms + ms/4)
		wantFenced(t, f, snowflake.ErrFenced)
	})
}

// Close first seals the timeline and then sets its state. A Bind that waits for the lock
// meanwhile runs before both steps or after both, never in between. A mutex is passed
// first to a waiter that has waited for more than a millisecond. So this Bind would run
// in between if Close released the lock between its steps.
func TestBindDuringClose(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	bound := make(chan error, 1)
	var waits, closes atomic.Bool
	clock.read = func() { // the goroutine that reads the clock here holds the lock
		switch {
		case waits.CompareAndSwap(false, true): // this is the Bind below
			go func() { s := free(); s.NodeID = 8; bound <- tl.Bind(s) }()
			awaitStack(t, "(*Timeline).Bind", 2, "sync.Mutex.Lock")
			spin(2 * ms)
		case closes.CompareAndSwap(true, false): // this is Close, which took the lock before the other Bind woke up
			spin(5 * ms)
		}
	}
	if err := tl.Bind(free()); err != nil {
		t.Fatal(err)
	}
	closes.Store(true)
	last := tl.Close()
	if err := <-bound; err != nil && err != snowflake.ErrClosed {
		t.Errorf("Bind during Close: got %v, want nil or %v", err, snowflake.ErrClosed)
	}
	if id, err := g.Next(); err != snowflake.ErrClosed {
		t.Errorf("Close returned %v, then Next: got an ID of %v, node %d, %v; want %v", last, id.Time(), id.Node(), err, snowflake.ErrClosed)
	}
}

// awaitStack waits until n goroutines are in the given function, and one of them is in
// the given wait state.
func awaitStack(t *testing.T, function string, n int, state string) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); runtime.Gosched() {
		in, waits := 0, false
		all := make([]byte, 1<<20)
		for one := range bytes.SplitSeq(all[:runtime.Stack(all, true)], []byte("\n\n")) {
			if bytes.Contains(one, []byte(function)) {
				in++
				first, _, _ := bytes.Cut(one, []byte("\n"))
				waits = waits || bytes.Contains(first, []byte(state))
			}
		}
		if in >= n && waits {
			return
		}
	}
	t.Errorf("none of %d goroutines in %s waits in %q", n, function, state)
}

// spin lets real time pass for goroutines that wait for a mutex. A mutex measures how
// long its waiters have waited, and there is no event that a test could wait for.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		runtime.Gosched()
	}
}

// If a layout's epoch is in the future, no IDs are made. The span ends before the epoch,
// so a release reserves no milliseconds.
func TestCloseBeforeTheEpoch(t *testing.T) {
	for name, l := range layouts {
		l.Epoch = noon.AddDate(10, 0, 0)
		clock := newFrozen()
		s := free()
		s.Nodes = 8
		s.NotBefore, s.Until = noon.Add(-time.Second), noon.Add(time.Minute)
		tl, g := bind(t, clock, s, snowflake.WithLayout(l))
		b := g.Block()
		for _, call := range []func() (ID, error){g.Next, g.TryNext, b.Next} {
			if id, err := call(); err == nil {
				t.Errorf("%s: got ID %d before the epoch, want an error", name, id)
			}
		}
		if last := tl.Close(); !last.IsZero() {
			t.Errorf("%s: Close: got %v, want the zero time: nothing was stamped", name, last)
		}
	}
}

// Close never returns a time that is later than the confirmed end or earlier than the
// last stamp. All tickets that a Block has drawn are treated as stamped, including
// unused tickets.
func TestCloseIsWithinTheSpan(t *testing.T) {
	for name, l := range layouts {
		for until := range 40 {
			clock := newFrozen()
			s := free()
			s.Nodes, s.Until = 8, noon.Add(time.Duration(until)*ms)
			tl, g := bind(t, clock, s, snowflake.WithLayout(l))
			b := g.Block()
			var lastID ID
			for range 50 {
				if id, err := b.Next(); err == nil {
					lastID = id
				}
				clock.advance(ms)
			}
			last := tl.Close()
			if last.After(s.Until) {
				t.Errorf("%s, until %v: got %v, past the span", name, s.Until, last)
			}
			if lastID != 0 && last.Before(l.Decompose(lastID).Time.Add(l.Tick-ms)) {
				t.Errorf("%s, until %v: got %v, want the end of the tick %v of the last block", name, s.Until, last, l.Decompose(lastID).Time)
			}
		}
	}
}
