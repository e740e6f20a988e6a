package snowflake_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

func wantStamp(t *testing.T, g *snowflake.Generator, want time.Time) ID {
	t.Helper()
	id := next(t, g)
	if !id.Time().Equal(want.Truncate(ms)) {
		t.Errorf("stamp %v; want %v", id.Time(), want)
	}
	return id
}

// After a step back of up to WithMaxBackward, stamps are borrowed: they continue with the
// monotonic clock until the wall clock has passed the last stamp. Stats reports how far
// they are ahead. After that, stamps follow the wall clock again.
func TestSmallStepBack(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	next(t, g)
	clock.step(-time.Second)
	for range 500 {
		clock.advance(ms)
		wantStamp(t, g, clock.Wall().Add(time.Second))
	}
	if s := tl.Stats(); s.StepsBack != 1 || s.Borrow != time.Second {
		t.Errorf("got %+v, want StepsBack 1 and Borrow 1 s", s)
	}
	clock.advance(time.Second + ms)
	wantStamp(t, g, clock.Wall())
	if s := tl.Stats(); s.StepsBack != 1 || s.Borrow != 0 {
		t.Errorf("afterwards: got %+v, want StepsBack 1 and Borrow 0", s)
	}
}

// After a larger step back, calls fail until the clock has passed the last stamp. The
// error contains the time that this will take.
func TestLargeStepBack(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := newFrozen()
		tl, g := bind(t, clock, free(), snowflake.WithMaxWait(20*ms))
		f := call(g)
		last := mustMake(t, f)
		clock.advance(ms)
		clock.step(-time.Minute)
		now := tl.Now()
		refused := func() time.Duration {
			if id, err := g.TryNext(); id != 0 || err != snowflake.ErrBusy {
				t.Fatalf("TryNext: got %d, %v, want 0 and ErrBusy", id, err)
			}
			id, err := g.Next()
			var behind *snowflake.ClockError
			if id != 0 || !errors.As(err, &behind) {
				t.Fatalf("Next: got %d, %v, want a ClockError", id, err)
			}
			return behind.Behind
		}
		for passed := time.Duration(0); passed < time.Minute-30*ms; passed += time.Second {
			if d := refused(); d < time.Minute-passed-2*ms || d > time.Minute-passed {
				t.Errorf("after %v the clock is %v behind", passed, d)
			}
			clock.advance(time.Second)
			if n := tl.Now(); n.Sub(now) != time.Second { // the lease's clock continues
				t.Errorf("Now went from %v to %v, want 1 s later", now, n)
			} else {
				now = n
			}
		}
		clock.asleep = clock.advance // the remaining time is short enough to wait for
		if id := mustMake(t, g.Next); id <= last || id.Time().After(clock.Wall()) {
			t.Errorf("got %v at %v, after %v", id.Time(), clock.Wall(), last.Time())
		}
		if s := tl.Stats(); s.StepsBack != 1 || s.Borrow != 0 {
			t.Errorf("got %+v, want StepsBack 1 and Borrow 0", s)
		}
	})
}

// With WithMaxBackward(0), no stamps are borrowed. The smallest value of all generators
// on the timeline applies.
func TestNoBorrow(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	generator(t, tl, snowflake.WithMaxBackward(0))
	last := next(t, g)
	clock.step(-100 * ms)
	clock.asleep = clock.advance
	clock.advance(ms)
	id := next(t, g)
	if id <= last || id.Time().After(clock.Wall()) {
		t.Errorf("got %v at %v, want a larger ID that is not ahead", id.Time(), clock.Wall())
	}
}

// A wall clock that was set back by mistake is put right. The first call that would
// otherwise fail moves the anchor to the right time, even if no agent calls Now.
func TestLargeStepBackIsUndone(t *testing.T) {
	for _, back := range []time.Duration{time.Minute, 3 * 365 * 24 * time.Hour} { // the second step leads to before the epoch
		forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
			clock := newFrozen()
			_, g := bind(t, clock, free())
			f := call(g)
			last := mustMake(t, f)
			clock.advance(ms)
			clock.step(-back)
			if id, err := g.Next(); err == nil {
				t.Fatalf("the clock was set back: got an ID of %v, want an error", id.Time())
			}
			clock.advance(ms)
			clock.step(back)
			_, _ = g.Next() // Next would fail, and so moves the anchor; TryNext and NextContext would not
			if id := mustMake(t, f); id <= last || !id.Time().Equal(clock.Wall()) {
				t.Errorf("the clock was put right: got an ID of %v, want %v", id.Time(), clock.Wall())
			}
		})
	}
}

// A step forward, or a suspend that only the wall clock shows, moves the anchor: stamps
// follow the wall clock from the next tick on.
func TestStepForward(t *testing.T) {
	for _, step := range []time.Duration{11 * ms, time.Hour, 24 * 365 * time.Hour} {
		clock := newFrozen()
		tl, g := bind(t, clock, free())
		next(t, g)
		clock.step(step)
		clock.advance(ms)
		wantStamp(t, g, clock.Wall())
		if now := tl.Now(); !now.Equal(clock.Wall()) {
			t.Errorf("Now is %v, want the wall clock's %v", now, clock.Wall())
		}
		clock.step(-step) // the clock steps back: Now follows, unless stamps are borrowed
		clock.advance(ms)
		want := clock.Wall()
		if step <= time.Second {
			want = want.Add(step)
		}
		if now := tl.Now(); !now.Equal(want) {
			t.Errorf("Now after a step of %v and back: got %v, want %v", step, now, want)
		}
		if s := tl.Stats(); s.StepsForward != 1 || s.StepsBack != 1 {
			t.Errorf("%v: %+v, want StepsForward 1 and StepsBack 1", step, s)
		}
	}
}

// A suspend that the monotonic clock includes is not counted as a step, since time has
// really passed.
func TestSuspend(t *testing.T) {
	clock := newFrozen()
	s := free()
	s.Until, s.Deadline = noon.Add(time.Hour), clock.Monotonic()+10*time.Second
	tl, g := bind(t, clock, s)
	next(t, g)
	clock.advance(time.Minute)
	wantFenced(t, g.Next, snowflake.ErrFenced)
	tl.Extend(noon.Add(time.Hour), clock.Monotonic()+10*time.Second)
	wantStamp(t, g, clock.Wall())
	if s := tl.Stats(); s.StepsForward != 0 || s.StepsBack != 0 {
		t.Errorf("got %+v, want StepsForward 0 and StepsBack 0", s)
	}
}

// If the wall clock jumps past the span's end, that end does not move: only a confirmed
// renewal moves it.
func TestStepForwardPastTheSpan(t *testing.T) {
	clock := newFrozen()
	s := free()
	s.Until = noon.Add(15 * time.Second)
	tl, g := bind(t, clock, s)
	next(t, g)
	clock.step(time.Minute)
	clock.advance(ms)
	wantFenced(t, g.Next, snowflake.ErrFenced)
	tl.Extend(tl.Now().Add(15*time.Second), 0)
	wantStamp(t, g, clock.Wall())
}

// The thread may lose the CPU between the readings of the two clocks. Even so, the anchor
// does not move, and no stamp is ahead of the clock.
func TestSlowReadings(t *testing.T) {
	clock := newFrozen()
	slow := func() { clock.advance(20 * ms) }
	clock.beforeRead, clock.read = slow, slow
	tl, g := bind(t, clock, free())
	for range 10 {
		clock.beforeRead, clock.read = nil, nil
		if id := next(t, g); id.Time().After(clock.Wall()) {
			t.Errorf("got a stamp of %v at %v, want none ahead", id.Time(), clock.Wall())
		}
		if now := tl.Now(); now.After(clock.Wall()) {
			t.Errorf("Now: got %v at %v, want none ahead", now, clock.Wall())
		}
		steps := tl.Stats().StepsForward
		clock.beforeRead, clock.read = slow, slow
		clock.advance(ms)
		next(t, g)
		tl.Now()
		if s := tl.Stats(); s.StepsForward != steps {
			t.Errorf("%+v", s)
		}
	}
}

// An agent binds a span before there is a generator. Even so, the timeline's clock
// follows the wall clock, and only real steps are counted.
func TestNowWithoutAGenerator(t *testing.T) {
	clock := newFrozen()
	tl := snowflake.NewTimeline(clock)
	if err := tl.Bind(free()); err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{0, time.Second, time.Hour} {
		clock.step(d)
		if now := tl.Now(); !now.Equal(clock.Wall()) {
			t.Errorf("%v; want %v", now, clock.Wall())
		}
	}
	if s := tl.Stats(); s.StepsForward != 0 || s.StepsBack != 0 {
		t.Errorf("got %+v, want StepsForward 0 and StepsBack 0", s)
	}
}

func TestClockBeforeTheEpoch(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := newFrozen()
		clock.step(snowflake.Default().Epoch.Add(-time.Hour).Sub(noon))
		tl, g := bind(t, clock, free())
		id, err := call(g)()
		var behind *snowflake.ClockError
		if id != 0 || !errors.As(err, &behind) || behind.Behind != time.Hour {
			t.Errorf("got %d, %v, want a ClockError of an hour", id, err)
		}
		if last := tl.Seal(); !last.IsZero() {
			t.Errorf("sealed at %v, want the zero time", last)
		}
	})
}

// wild is a clock for synctest bubbles that has an error and a drift, and that steps.
type wild struct {
	start time.Time
	rate  float64 // of both clocks
	drift float64 // of the wall clock, relative to the monotonic clock
	shift time.Duration
}

func (c *wild) Monotonic() time.Duration {
	return time.Duration(float64(time.Since(c.start)) * c.rate)
}

func (c *wild) Wall() time.Time {
	return noon.Add(time.Duration(float64(c.Monotonic())*(1+c.drift)) + c.shift)
}

// Whatever the clock does, IDs grow and no stamp is ahead of Now. Unless the clock has
// just stepped back, no stamp is far from the wall clock. All waits use time.Sleep, so
// that virtual time advances.
func TestWildClocks(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			clock := &wild{start: time.Now(), rate: 0.5 + rng.Float64(), drift: (rng.Float64() - 0.5) / 100}
			s := free()
			s.Nodes = 64
			tl, g := bind(t, clock, s, snowflake.WithLayout(snowflake.JS53()))
			l, last, steps := g.Layout(), ID(0), 0
			for range 3000 {
				switch rng.IntN(200) {
				case 0:
					clock.shift += time.Duration(rng.Int64N(int64(time.Minute)))
					steps++
				case 1:
					clock.shift -= time.Duration(rng.Int64N(int64(3 * time.Second)))
					steps++
					time.Sleep(50 * ms) // the wall clock is read once per tick: let a tick begin
				case 2:
					time.Sleep(time.Second)
				default:
					time.Sleep(time.Duration(rng.Int64N(int64(ms / 10))))
				}
				id, err := g.Next()
				if err != nil {
					var behind *snowflake.ClockError
					if !errors.As(err, &behind) {
						t.Fatalf("seed %d: got %v, want a ClockError", seed, err)
					}
					time.Sleep(behind.Behind / 2)
					continue
				}
				at := l.Decompose(id).Time
				if id <= last {
					t.Fatalf("seed %d: got %d after %d, want a larger ID", seed, id, last)
				}
				if now := tl.Now(); at.After(now) {
					t.Fatalf("seed %d: got a stamp of %v, want at most Now, %v", seed, at, now)
				}
				if off := at.Sub(clock.Wall()); off > time.Second+10*ms {
					t.Fatalf("seed %d: stamp %v ahead of the wall clock", seed, off)
				}
				last = id
			}
			if steps == 0 || last == 0 {
				t.Fatalf("seed %d: the clock never stepped", seed)
			}
		})
	}
}

// The machine's own clocks work in a synctest bubble, where time advances only when all
// goroutines wait.
func TestSystemClockInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := snowflake.Default()
		l.Epoch = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // it is the year 2000
		g := generator(t, fixed(7), snowflake.WithLayout(l))
		start := time.Now()
		for range 4 {
			go func() {
				for range 10_000 {
					if _, err := g.Next(); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		synctest.Wait() // the callers wait by sleeping, so this returns at once
		time.Sleep(time.Second)
		synctest.Wait()
		if s := g.Stats(); s.Issued != 40_000 {
			t.Errorf("got %+v, want Issued 40,000", s)
		}
		if took := l.Decompose(next(t, g)).Time.Sub(start); took != time.Second {
			t.Errorf("stamps are %v on, want 1 s", took)
		}
	})
}

// Before the first Bind, Now is the wall clock. Afterwards, Now follows the wall clock
// when it steps ahead, and when it steps back. But Now is never earlier than the clock of
// the last Bind or SetFloor.
func TestNowIsNeverBehindTheClockOfTheBind(t *testing.T) {
	clock := newFrozen()
	tl := snowflake.NewTimeline(clock)
	clock.step(-time.Hour)
	if got, want := tl.Now(), clock.Wall(); !got.Equal(want) {
		t.Errorf("before a Bind: got %v, want %v", got, want)
	}
	if err := tl.Bind(free()); err != nil { // bound before there is a generator, as an agent does
		t.Fatal(err)
	}
	right := clock.Wall() // the reading of a clock that was never set
	for i, c := range []struct {
		change func()
		ahead  time.Duration // of right
	}{
		{func() { clock.step(-time.Minute) }, 0},
		{func() { clock.advance(time.Second); right = right.Add(time.Second) }, 0},
		{func() { clock.step(2 * time.Minute) }, time.Minute},
		{func() { clock.step(-time.Second) }, time.Minute - time.Second},
		{func() { tl.Seal() }, time.Minute - time.Second},
		{func() { clock.step(-time.Hour) }, 0},
		{func() { _ = tl.Bind(free()); right = clock.Wall() }, 0},
		{func() { clock.step(-time.Hour) }, 0},
		{func() { tl.SetFloor(clock.Wall(), clock.Monotonic()); right = clock.Wall() }, 0},
		{func() { clock.step(-time.Minute) }, 0},
		{func() { clock.advance(time.Second); right = right.Add(time.Second) }, 0},
		{func() { tl.Seal(); tl.SetFloor(clock.Wall(), clock.Monotonic()) }, 0},
	} {
		c.change()
		if got, want := tl.Now(), right.Add(c.ahead); !got.Equal(want) {
			t.Errorf("change %d: got %v, want %v", i, got, want)
		}
	}
}

// The wall clock is an hour ahead for two seconds. Once it is right again, the clock of
// renewals and the clock of stamps are right too. If IDs were made in those two seconds,
// calls wait until the clock has passed those IDs, since IDs must grow.
func TestGlitchHeals(t *testing.T) {
	for _, busy := range []bool{false, true} {
		clock := newFrozen()
		tl, g := bind(t, clock, free())
		for passed := range 6 {
			if passed == 1 {
				clock.step(time.Hour)
			} else if passed == 3 {
				clock.step(-time.Hour)
			}
			if busy || passed == 0 {
				_, _ = g.TryNext()
			}
			if got, want := tl.Now(), clock.Wall(); !got.Equal(want) {
				t.Errorf("busy %v, %d s passed: Now: got %v, want %v", busy, passed, got, want)
			}
			clock.advance(time.Second)
		}
		if !busy {
			wantStamp(t, g, clock.Wall())
			continue
		}
		var behind *snowflake.ClockError
		if err := tl.Check(); !errors.As(err, &behind) || behind.Behind < time.Hour-5*time.Second {
			t.Errorf("Check: got %v, want that the clock is an hour behind", err)
		}
		clock.advance(time.Hour)
		wantStamp(t, g, clock.Wall())
	}
}

// Stamps do not follow a wall clock that is above the ceiling, even in a span of hours.
// They continue with the monotonic clock, and no call waits once the wall clock is right
// again. A renewal raises or lowers the ceiling, and stamps then follow the wall clock up
// to the new ceiling.
func TestCeiling(t *testing.T) {
	clock := newFrozen()
	const ahead = 16 * time.Second
	line := func() snowflake.Ceiling {
		return snowflake.Ceiling{At: clock.Wall().Add(ahead), Mono: clock.Monotonic()}
	}
	s := free()
	s.Until, s.Ceiling = noon.Add(12*time.Hour), line()
	tl, g := bind(t, clock, s, snowflake.WithMaxWait(20*ms))
	l := g.Layout()
	last := next(t, g)
	make1 := func(want time.Time) {
		t.Helper()
		if id := wantStamp(t, g, want); id <= last {
			t.Errorf("got ID %d after %d, want a larger one", id, last)
		} else {
			last = id
		}
		if err := tl.Check(); err != nil {
			t.Errorf("Check: got %v, want nil", err)
		}
	}
	clock.step(time.Hour)
	for range 3 {
		clock.advance(time.Second)
		make1(clock.Wall().Add(-time.Hour))
	}
	if got := tl.Stats().StepsForward; got != 0 {
		t.Errorf("steps forward: got %d, want 0", got)
	}
	clock.step(-time.Hour)
	clock.advance(ms)
	make1(clock.Wall())
	clock.step(ahead - time.Second) // below the ceiling
	clock.advance(ms)
	make1(clock.Wall())
	clock.step(time.Hour - ahead + time.Second)
	clock.advance(ms)
	make1(clock.Wall().Add(ahead - time.Second - time.Hour))
	tl.SetCeiling(line()) // a renewal by the clock that is ahead
	clock.advance(ms)
	make1(clock.Wall())

	clock.step(-time.Hour)
	clock.advance(ms)
	tl.SetCeiling(line())
	clock.advance(ms)
	var behind *snowflake.ClockError
	if id, err := g.Next(); !errors.As(err, &behind) {
		t.Errorf("the clock is right again: got an ID of %v, %v; want a ClockError", l.Decompose(id).Time, err)
	}
	clock.advance(time.Hour)
	make1(clock.Wall())

	low := clock.Wall().Add(time.Second)
	tl.SetCeiling(snowflake.Ceiling{At: low, Mono: clock.Monotonic()})
	clock.step(time.Minute)
	clock.advance(time.Second)
	make1(clock.Wall().Add(-time.Minute))
	tl.SetCeiling(snowflake.Ceiling{}) // no ceiling
	clock.advance(ms)
	make1(clock.Wall())
	tl.Seal()
	tl.SetCeiling(snowflake.Ceiling{At: time.UnixMilli(math.MinInt64), Mono: math.MaxInt64}) // the timeline is not bound, so the call does nothing
	if err := tl.Bind(free()); err != nil {
		t.Fatal(err)
	}
	clock.advance(ms)
	make1(clock.Wall())
	for _, c := range []snowflake.Ceiling{
		{At: time.UnixMilli(math.MinInt64), Mono: math.MaxInt64}, {At: time.UnixMilli(math.MinInt64), Mono: math.MinInt64},
		{At: noon.AddDate(-100, 0, 0)},
	} {
		tl.SetCeiling(c)
		clock.advance(ms)
		if id, err := g.Next(); err == nil {
			t.Errorf("ceiling %v: got an ID of %v, want an error", c, l.Decompose(id).Time)
		}
	}
	tl.SetCeiling(snowflake.Ceiling{At: time.UnixMilli(math.MaxInt64), Mono: math.MinInt64})
	clock.advance(ms)
	make1(clock.Wall())
}

// Check returns the error that Next would return, and changes nothing.
func TestCheckSaysWhatNextWould(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 14))
		clock := newFrozen()
		clock.asleep = clock.advance
		l := layouts[[]string{"default", "sonyflake", "js53"}[rng.IntN(3)]]
		l.Epoch = noon.Add(time.Duration(rng.IntN(3)-1) * time.Second)
		if rng.IntN(3) == 0 {
			l.TimeBits = 12
		}
		tl := snowflake.NewTimeline(clock)
		most := time.Duration(rng.IntN(3000)) * ms
		g := generator(t, tl, snowflake.WithLayout(l), snowflake.WithMaxWait(most))
		for range 50 {
			switch rng.IntN(8) {
			case 0:
				clock.step(time.Duration(rng.IntN(6000)-3000) * ms)
			case 1, 2:
				clock.advance(time.Duration(rng.IntN(3000)) * ms)
			case 3:
				s := free()
				s.Nodes = 8
				s.NotBefore = clock.Wall().Add(time.Duration(rng.IntN(2000)-1000) * ms)
				s.Until = s.NotBefore.Add(time.Duration(rng.IntN(20000)) * ms)
				s.Deadline = clock.Monotonic() + time.Duration(rng.IntN(10000))*ms
				if err := tl.Bind(s); err != nil && err != snowflake.ErrClosed {
					t.Fatal(err)
				}
			case 4:
				if rng.IntN(20) == 0 {
					tl.Close()
				} else if rng.IntN(4) == 0 {
					tl.Seal()
				}
			}
			before := tl.Stats()
			check := tl.Check()
			if after := tl.Stats(); after.Issued != before.Issued || after.Refused != before.Refused || after.Waits != before.Waits {
				t.Fatalf("seed %d: Check changed the counts: got %+v, want %+v", seed, after, before)
			}
			began, deadline := clock.Wall(), clock.Monotonic()
			_, err := g.Next()
			if waited := clock.Monotonic() - deadline; waited > 0 && err == snowflake.ErrFenced {
				continue // the span or the deadline ended during the wait
			}
			var a, b *snowflake.ClockError
			if errors.As(check, &a) && err == snowflake.ErrBusy && a.Behind <= max(most+l.Tick, 3*l.Tick) {
				continue // Next waited for all but the last tick
			}
			if !errors.Is(err, check) && !(errors.As(check, &a) && errors.As(err, &b) && (a.Behind-b.Behind).Abs() <= 10*ms) {
				t.Fatalf("seed %d at %v, %v: Check: got %v, want as Next: %v", seed, began, l, check, err)
			}
		}
	}
}
