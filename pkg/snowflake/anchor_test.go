package snowflake_test

import (
	"errors"
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

// A step back of up to WithMaxBackward is borrowed past: stamps go on from the
// monotonic clock, are counted, and come back to the wall clock when no stamp is
// in the way any more.
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
		t.Errorf("%+v", s)
	}
	clock.advance(time.Second + ms)
	wantStamp(t, g, clock.Wall())
	if s := tl.Stats(); s.StepsBack != 1 || s.Borrow != 0 {
		t.Errorf("afterwards %+v", s)
	}
}

// A larger one is an error until the clock has passed the last stamp, which says
// how long that will take.
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
				t.Fatalf("TryNext: %d, %v", id, err)
			}
			id, err := g.Next()
			var behind *snowflake.ClockError
			if id != 0 || !errors.As(err, &behind) {
				t.Fatalf("Next: %d, %v", id, err)
			}
			return behind.Behind
		}
		for passed := time.Duration(0); passed < time.Minute-30*ms; passed += time.Second {
			if d := refused(); d < time.Minute-passed-2*ms || d > time.Minute-passed {
				t.Errorf("%v passed, and the clock is %v behind", passed, d)
			}
			clock.advance(time.Second)
			if n := tl.Now(); n.Sub(now) != time.Second { // the lease's clock goes on
				t.Errorf("Now went from %v to %v", now, n)
			} else {
				now = n
			}
		}
		clock.asleep = clock.advance // the rest is short enough to wait
		if id := mustMake(t, g.Next); id <= last || id.Time().After(clock.Wall()) {
			t.Errorf("%v at %v, after %v", id.Time(), clock.Wall(), last.Time())
		}
		if s := tl.Stats(); s.StepsBack != 1 || s.Borrow != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// WithMaxBackward(0) borrows nothing, and the smallest of the generators' counts.
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
		t.Errorf("%v at %v", id.Time(), clock.Wall())
	}
}

// A step forward, or a suspend that only the wall clock shows, moves the anchor:
// stamps are the wall clock's from the next tick on.
func TestStepForward(t *testing.T) {
	for _, step := range []time.Duration{11 * ms, time.Hour, 24 * 365 * time.Hour} {
		clock := newFrozen()
		tl, g := bind(t, clock, free())
		next(t, g)
		clock.step(step)
		clock.advance(ms)
		wantStamp(t, g, clock.Wall())
		if now := tl.Now(); !now.Equal(clock.Wall()) {
			t.Errorf("now is %v, and the wall clock says %v", now, clock.Wall())
		}
		clock.step(-step) // and back: Now does not follow
		clock.advance(ms)
		if now := tl.Now(); !now.Equal(clock.Wall().Add(step)) {
			t.Errorf("now is %v, and was %v", now, clock.Wall().Add(step-ms))
		}
		if s := tl.Stats(); s.StepsForward != 1 || s.StepsBack != 1 {
			t.Errorf("%v: %+v", step, s)
		}
	}
}

// A suspend that the monotonic clock shows is no step: time has passed.
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
		t.Errorf("%+v", s)
	}
}

// A wall clock that jumps past the span's end does not raise it: the span is what
// a renewal has confirmed.
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

// Between the two readings of a pair the thread may lose the CPU: that moves no
// anchor, and no stamp is ahead of the clock.
func TestSlowReadings(t *testing.T) {
	clock := newFrozen()
	slow := func() { clock.advance(20 * ms) }
	clock.beforeRead, clock.read = slow, slow
	tl, g := bind(t, clock, free())
	for range 10 {
		clock.beforeRead, clock.read = nil, nil
		if id := next(t, g); id.Time().After(clock.Wall()) {
			t.Errorf("stamp %v at %v", id.Time(), clock.Wall())
		}
		if now := tl.Now(); now.After(clock.Wall()) {
			t.Errorf("now is %v at %v", now, clock.Wall())
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

// The agent is bound before there is a generator: its clock follows all the same,
// and no step is counted that was none.
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
		t.Errorf("%+v", s)
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
			t.Errorf("%d, %v", id, err)
		}
		if last := tl.Seal(); !last.IsZero() {
			t.Errorf("sealed at %v", last)
		}
	})
}

// wild is a clock in a synctest bubble with an error, a drift and steps.
type wild struct {
	start time.Time
	rate  float64 // of both clocks
	drift float64 // of the wall clock against the other
	shift time.Duration
}

func (c *wild) Monotonic() time.Duration {
	return time.Duration(float64(time.Since(c.start)) * c.rate)
}

func (c *wild) Wall() time.Time {
	return noon.Add(time.Duration(float64(c.Monotonic())*(1+c.drift)) + c.shift)
}

// Whatever the clock does, IDs grow, no stamp is ahead of Now, and unless the
// clock has just stepped back, none is far from the wall clock. The waits are
// time.Sleep, so that virtual time moves.
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
					time.Sleep(50 * ms) // the wall clock is looked at once per tick: let one begin
				case 2:
					time.Sleep(time.Second)
				default:
					time.Sleep(time.Duration(rng.Int64N(int64(ms / 10))))
				}
				id, err := g.Next()
				if err != nil {
					var behind *snowflake.ClockError
					if !errors.As(err, &behind) {
						t.Fatalf("seed %d: %v", seed, err)
					}
					time.Sleep(behind.Behind / 2)
					continue
				}
				at := l.Decompose(id).Time
				if id <= last {
					t.Fatalf("seed %d: %d after %d", seed, id, last)
				}
				if now := tl.Now(); at.After(now) {
					t.Fatalf("seed %d: stamp %v, now %v", seed, at, now)
				}
				if off := at.Sub(clock.Wall()); off > time.Second+10*ms {
					t.Fatalf("seed %d: stamp %v ahead of the wall clock", seed, off)
				}
				last = id
			}
			if steps == 0 || last == 0 {
				t.Fatalf("seed %d: nothing happened", seed)
			}
		})
	}
}

// The machine's own clocks work in a bubble: time there moves when all wait.
func TestSystemClockInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := snowflake.Default()
		l.Epoch = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // it is the year 2000
		g := generator(t, snowflake.Fixed(7), snowflake.WithLayout(l))
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
		synctest.Wait() // they wait by sleeping, so this returns at once
		time.Sleep(time.Second)
		synctest.Wait()
		if s := g.Stats(); s.Issued != 40_000 {
			t.Errorf("%+v", s)
		}
		if took := l.Decompose(next(t, g)).Time.Sub(start); took != time.Second {
			t.Errorf("stamps are %v on", took)
		}
	})
}

func TestNowFollowsTheWallClockBeforeBindAndNeverGoesBackAfter(t *testing.T) {
	clock := newFrozen()
	tl := snowflake.NewTimeline(clock)
	clock.step(-time.Hour)
	if now := tl.Now(); !now.Equal(clock.Wall()) {
		t.Errorf("%v", now)
	}
	if err := tl.Bind(free()); err != nil { // no generator yet: the agent is first
		t.Fatal(err)
	}
	last := tl.Now()
	for i, change := range []func(){
		func() { clock.step(-time.Minute) },
		func() { clock.advance(time.Second) },
		func() { tl.Seal() },
		func() { clock.step(-time.Minute) },
		func() { _ = tl.Bind(free()) },
		func() { clock.step(time.Hour) },
		func() { clock.step(-time.Hour) },
	} {
		change()
		now := tl.Now()
		if now.Before(last) {
			t.Errorf("%d: from %v back to %v", i, last, now)
		}
		last = now
	}
}
