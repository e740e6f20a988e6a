package snowflake_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// crew is a group of goroutines that make IDs concurrently in every possible way, with
// two generators on one timeline. Each goroutine checks its own IDs as far as it can.
type crew struct {
	t       *testing.T
	clock   snowflake.Clock
	tl      *snowflake.Timeline
	l       snowflake.Layout
	gens    [2]*snowflake.Generator
	blocks  bool             // use blocks and runs as well
	passing func(error) bool // reports whether an error is allowed
	steps   time.Duration    // how far the wall clock may step back during a call
	stop    atomic.Bool
	wg      sync.WaitGroup

	highest  atomic.Int64 // largest ID that a call has returned, except for blocks
	deadline atomic.Int64 // the largest deadline so far; it only grows
	until    atomic.Int64 // the largest end so far, in Unix ms; it only grows
	made     [][]ID
	count    atomic.Int64
	refused  atomic.Int64
	gaveUp   atomic.Int64 // calls that may have left a place in the queue
}

func newCrew(t *testing.T, clock snowflake.Clock, l snowflake.Layout) *crew {
	c := &crew{t: t, clock: clock, tl: snowflake.NewTimeline(clock), l: l, made: make([][]ID, 8)}
	c.gens[0] = generator(t, c.tl, snowflake.WithLayout(l))
	c.gens[1] = generator(t, c.tl, snowflake.WithLayout(l), snowflake.WithStrictWall(), snowflake.WithCatchUp(0))
	c.deadline.Store(math.MinInt64)
	return c
}

// start starts the crew, and returns the source of random numbers for the test's own
// goroutine.
func (c *crew) start() *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("SNOWFLAKE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	c.t.Logf("repeat with: SNOWFLAKE_SEED=%d go test -race -run '%s' ./pkg/snowflake", seed, c.t.Name())
	for i := range c.made {
		c.wg.Go(func() { c.work(i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	return rand.New(rand.NewPCG(seed, 99))
}

func (c *crew) work(me int, rng *rand.Rand) {
	g := c.gens[me%2]
	block, buf := g.Block(), make([]ID, 300)
	var last, lastOfBlock ID
	for !c.stop.Load() {
		if rng.IntN(8) == 0 {
			runtime.Gosched() // causes more interleavings, and lets the test's own goroutine run
		}
		highest, began := c.highest.Load(), c.clock.Monotonic()
		var ids []ID
		var err error
		fromBlock, batch, atOnce := false, false, false
		switch rng.IntN(12) {
		case 0:
			var n int
			batch = true
			n, err = g.NextN(context.Background(), buf[:1+rng.IntN(len(buf)-1)])
			ids = buf[:n]
		case 1:
			buf[0], err = g.TryNext()
			atOnce = true // TryNext has no place in the queue to leave
			ids = buf[:1]
		case 2:
			buf[0], err = g.NextContext(c.t.Context())
			ids = buf[:1]
		case 3, 4:
			if !c.blocks {
				continue
			}
			fromBlock = true
			buf[0], err = block.Next()
			ids = buf[:1]
		case 5:
			if rng.IntN(64) == 0 {
				time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
			}
			continue
		case 6:
			if !c.blocks {
				continue
			}
			var r snowflake.Run
			if r, err = g.Draw(context.Background(), uint64(1+rng.IntN(len(buf)-1)), 1+rng.IntN(4), time.Duration(rng.IntN(20))*ms); err == nil {
				for i := range buf[:r.Count] {
					buf[i] = r.ID(uint64(i))
				}
			}
			ids = buf[:r.Count]
		default:
			buf[0], err = g.Next()
			ids = buf[:1]
		}
		now := c.tl.Now()
		if err != nil {
			if !c.passing(err) && err != snowflake.ErrBusy {
				c.t.Error(err)
				return
			}
			c.refused.Add(1)
			if err == snowflake.ErrBusy && !atOnce {
				c.gaveUp.Add(1)
			}
			runtime.Gosched()
			if !batch {
				ids = nil
			}
		} else if began >= time.Duration(c.deadline.Load()) {
			c.t.Errorf("a call that began %v after the deadline made %v", began-time.Duration(c.deadline.Load()), ids)
			return
		}
		for _, id := range ids {
			at := c.l.Decompose(id).Time
			switch {
			case at.After(now.Add(c.steps)):
				c.t.Errorf("got a stamp of %v, want none after %v", at, now.Add(c.steps))
			case at.UnixMilli() > c.until.Load():
				c.t.Errorf("stamp %v outside the span", at)
			case fromBlock && id <= lastOfBlock, !fromBlock && id <= last:
				c.t.Errorf("got %d after %d (block: %v), want a larger ID", id, max(last, lastOfBlock), fromBlock)
			case !fromBlock && int64(id) <= highest:
				c.t.Errorf("got %d after %d had been returned", id, highest)
			default:
				if fromBlock {
					lastOfBlock = id
				} else {
					last = id
				}
				c.made[me] = append(c.made[me], id)
				c.count.Add(1)
				continue
			}
			return
		}
		for h := c.highest.Load(); int64(last) > h && !c.highest.CompareAndSwap(h, int64(last)); h = c.highest.Load() {
		}
	}
}

// finish stops the crew and returns all IDs in order, after checking that none was made
// twice.
func (c *crew) finish() []ID {
	c.stop.Store(true)
	c.wg.Wait()
	all := slices.Concat(c.made...)
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			c.t.Fatalf("got ID %d twice", all[i])
		}
	}
	return all
}

// bind binds the crew's timeline to a node ID from now on. It records the span as
// confirmed before the span takes effect.
func (c *crew) bind(node int, notBefore time.Time, length time.Duration) {
	s := snowflake.Span{NodeID: node, Nodes: c.l.Nodes(), NotBefore: notBefore, Until: c.tl.Now().Add(length), Deadline: c.clock.Monotonic() + length}
	c.confirm(s.Until, s.Deadline)
	if err := c.tl.Bind(s); err != nil {
		c.t.Error(err)
	}
}

func (c *crew) extend(length time.Duration) {
	until, deadline := c.tl.Now().Add(length), c.clock.Monotonic()+length
	c.confirm(until, deadline)
	c.tl.Extend(until, deadline)
}

func (c *crew) confirm(until time.Time, deadline time.Duration) {
	c.until.Store(max(c.until.Load(), until.UnixMilli()))
	c.deadline.Store(max(c.deadline.Load(), int64(deadline)))
}

// await waits until the crew has made n more IDs.
func (c *crew) await(n int) {
	for want := c.count.Load() + int64(n); c.count.Load() < want && !c.t.Failed(); {
		runtime.Gosched()
	}
}

// awaitFence waits until the crew's calls fail because the deadline has passed.
func (c *crew) awaitFence() {
	for was := c.refused.Load(); c.refused.Load() < was+20 && !c.t.Failed(); {
		runtime.Gosched()
	}
}

func (c *crew) rounds() int {
	if testing.Short() {
		return 50
	}
	return 100
}

var stressLayouts = map[string]snowflake.Layout{
	"default":    snowflake.Default(),
	"few a tick": snowflake.JS53(),
	"never full": {Epoch: snowflake.Default().Epoch, Tick: ms, TimeBits: 41, NodeBits: 6, SequenceBits: 16},
}

func fenced(err error) bool { return err == snowflake.ErrFenced }

// Node IDs are bound and sealed while a crew makes IDs without waiting for that. No ID is
// made twice or out of order, no stamp is ahead of the clock or outside the span, and
// each seal returns the last stamped millisecond of its node ID. A seal may return a
// later millisecond in three cases: a block has drawn tickets that it does not use, a run
// was drawn while the node ID was sealed, or a call on a busy machine has waited for
// longer than allowed.
func TestStressSealAndBind(t *testing.T) {
	for name, l := range stressLayouts {
		for _, blocks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, blocks %v", name, blocks), func(t *testing.T) {
				c := newCrew(t, snowflake.SystemClock(), l)
				c.blocks, c.passing = blocks, fenced
				rng := c.start()
				var sealed []time.Time
				var last time.Time
				for round := range c.rounds() {
					c.bind(round%l.Nodes(), last, time.Hour)
					c.await(rng.IntN(200))
					at := c.tl.Seal()
					if at.After(c.tl.Now()) {
						t.Fatalf("sealed at %v, in the future", at)
					}
					sealed = append(sealed, at)
					if !at.IsZero() {
						last = at
					}
				}
				c.awaitFence() // the last node ID is sealed
				// The milliseconds of the node IDs follow each other, so sorted IDs are
				// sorted by round.
				all, i := c.finish(), 0
				for round, at := range sealed {
					var found time.Time
					for ; i < len(all) && !l.Decompose(all[i]).Time.After(at); i++ {
						p := l.Decompose(all[i])
						if p.Node != round%l.Nodes() {
							t.Fatalf("round %d, sealed at %v: an ID of %d at %v", round, at, p.Node, p.Time)
						}
						found = p.Time
					}
					if !found.Equal(at) && !blocks && c.gaveUp.Load() == 0 {
						t.Fatalf("round %d was sealed at %v; its last ID is of %v", round, at, found)
					}
				}
				if i < len(all) {
					t.Errorf("%d IDs after the last seal", len(all)-i)
				}
			})
		}
	}
}

// Some renewals come in time and some come too late. No call that begins after the
// deadline succeeds, and after every late renewal the node ID can be used again.
func TestStressSuspendAndResume(t *testing.T) {
	for name, l := range stressLayouts {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t, snowflake.SystemClock(), l)
			c.blocks, c.passing = true, fenced
			rng := c.start()
			c.bind(7, time.Time{}, time.Millisecond)
			for range c.rounds() / 5 {
				if rng.IntN(3) == 0 {
					c.awaitFence()
				}
				c.extend(time.Duration(rng.IntN(3000)) * time.Microsecond)
			}
			c.extend(time.Hour)
			c.await(100)
			c.finish()
		})
	}
}

// stepping is the machine's clock, except that its wall clock steps.
type stepping struct {
	snowflake.Clock
	shift atomic.Int64
}

func (s *stepping) Wall() time.Time { return s.Clock.Wall().Add(time.Duration(s.shift.Load())) }

// No call is fenced by mistake while the wall clock steps, or while one node ID replaces
// another.
func TestStressStepsAndRebinds(t *testing.T) {
	for name, l := range stressLayouts {
		t.Run(name, func(t *testing.T) {
			clock := &stepping{Clock: snowflake.SystemClock()}
			c := newCrew(t, clock, l)
			c.blocks, c.passing = true, func(error) bool { return false }
			c.steps = 10 * time.Second // how far Now may step back during a call
			c.bind(0, time.Time{}, time.Hour)
			rng := c.start()
			for round := range c.rounds() / 5 {
				switch rng.IntN(3) {
				case 0:
					clock.shift.Add(rng.Int64N(int64(100 * ms)))
				case 1:
					clock.shift.Add(-rng.Int64N(int64(100 * ms)))
				case 2:
					c.bind(round%l.Nodes(), time.Time{}, time.Hour)
				}
				c.await(rng.IntN(200))
			}
			// This step is larger than the total time that was borrowed, so it must be noticed.
			clock.shift.Add(int64(10 * time.Second))
			for c.tl.Stats().StepsForward == 0 && !t.Failed() {
				c.await(1)
			}
			c.finish()
			if s := c.tl.Stats(); s.Refused != uint64(c.refused.Load()) {
				t.Errorf("got %+v, want %d refused", s, c.refused.Load())
			}
		})
	}
}

// ticking is a clock that the test moves. Many goroutines can read it concurrently at low
// cost.
type ticking struct {
	mono, behind atomic.Int64
	moves        atomic.Bool // the clock also moves when a generator waits
}

func (c *ticking) Monotonic() time.Duration { return time.Duration(c.mono.Load()) }
func (c *ticking) Wall() time.Time          { return noon.Add(c.Monotonic() - time.Duration(c.behind.Load())) }
func (c *ticking) Sleep(d time.Duration) {
	if c.moves.Load() {
		c.mono.Add(int64(d))
	}
	runtime.Gosched()
}

// Many callers reach the end of the span at once, inside the catch-up window. Each caller
// checks the end before it draws a ticket. Only a second check after the draw keeps the
// last tickets inside the span.
func TestStressAtTheEndOfTheSpan(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := &ticking{}
		s := free()
		s.Nodes, s.Until = 64, noon.Add(ms)
		tl, g := bind(t, clock, s, snowflake.WithLayout(snowflake.JS53()))
		useUp(t, g)
		clock.moves.Store(true)
		next(t, g) // waits: saturated
		clock.moves.Store(false)
		clock.behind.Store(int64(time.Second / 2))
		clock.mono.Add(int64(10 * ms))
		var until, refused atomic.Int64
		until.Store(s.Until.UnixMilli())
		var stop atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for f := call(g); !stop.Load(); {
					id, err := f()
					if at := snowflake.JS53().Decompose(id).Time; err == nil && at.UnixMilli() > until.Load() {
						t.Errorf("stamp %v, the span ends at %v", at, time.UnixMilli(until.Load()).UTC())
						return
					}
					if err != nil {
						refused.Add(1)
						runtime.Gosched()
					}
				}
			})
		}
		for round := range 2000 {
			for was := refused.Load(); refused.Load() < was+4 && !t.Failed(); {
				runtime.Gosched()
			}
			// The span gets one more tick; the clock is ten ticks ahead of it.
			clock.mono.Add(int64(ms))
			until.Add(1)
			tl.Extend(noon.Add(time.Duration(round+2)*ms), 0)
		}
		stop.Store(true)
		wg.Wait()
		if s := tl.Stats(); s.Issued < 1900*64 { // a block may drop some IDs
			t.Errorf("%+v", s)
		}
	})
}

// Two callers want the last sequence number of a tick at the same moment. Both find that
// a number is left. Only a check of the ticket after the draw keeps the second caller out
// of a tick that has not begun. Both callers spin until they start, since the race window
// is only a few nanoseconds wide.
func TestStressTwoAtTheLastNumber(t *testing.T) {
	for _, name := range []string{"Next", "NextContext"} { // the other methods use CompareAndSwap
		call := calls[name]
		l := snowflake.Default()
		l.SequenceBits = 1
		var round, returned atomic.Int64
		clock := &pair{returned: &returned}
		_, g := bind(t, clock, free(), snowflake.WithLayout(l), snowflake.WithCatchUp(0))
		const rounds = 20_000
		patience := 3 * time.Second // a busy machine rarely runs both callers at once
		if testing.Short() {
			patience /= 10
		}
		end := time.Now().Add(patience)
		one := func(f func() (ID, error), r int64) {
			id, err := f()
			if at, now := l.Decompose(id).Time, clock.Wall(); err == nil && at.After(now) {
				t.Errorf("round %d: stamp %v at %v", r, at, now)
			}
			returned.Add(1)
		}
		spinUntil := func(word *atomic.Int64, want int64) {
			for spins := 1; word.Load() != want; spins++ {
				if spins%10_000 == 0 {
					runtime.Gosched()
				}
			}
		}
		go func() {
			f := call(g)
			for r := int64(1); r <= rounds; r++ {
				if spinUntil(&round, r); returned.Load() < 0 {
					return
				}
				one(f, r)
			}
		}()
		f := call(g)
		for r := int64(1); r <= rounds; r++ {
			if time.Now().After(end) {
				returned.Store(-1)
				round.Store(r)
				break
			}
			returned.Store(0)
			clock.mono.Add(int64(10 * ms))
			if id, err := g.TryNext(); err != nil || l.Decompose(id).Sequence != 0 {
				t.Fatalf("round %d: %d, %v, want 0", r, id, err)
			}
			round.Store(r)
			for range r % 64 { // about as long as the other caller takes to see the change
				round.Load()
			}
			one(f, r)
			spinUntil(&returned, 2)
		}
	}
}

// pair is a clock for two callers. A caller that waits moves the clock once the other
// caller has returned.
type pair struct {
	mono     atomic.Int64
	returned *atomic.Int64
}

func (c *pair) Monotonic() time.Duration { return time.Duration(c.mono.Load()) }
func (c *pair) Wall() time.Time          { return noon.Add(c.Monotonic()) }
func (c *pair) Sleep(time.Duration) {
	for c.returned.Load() == 0 {
		runtime.Gosched()
	}
	c.mono.Add(int64(ms))
}

// A call is made at the moment of a seal, in a tick of which no ticket has been drawn
// before. Either the call fails, or the seal returns the call's millisecond.
func TestStressSealDuringTheFirstCall(t *testing.T) {
	clock := &ticking{}
	tl := snowflake.NewTimeline(clock)
	g := generator(t, tl)
	rounds := int64(300_000)
	if testing.Short() {
		rounds = 20_000
	}
	var id ID
	var err error
	var begin, done atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for round := int64(1); round <= rounds; round++ {
			for b := begin.Load(); b != round; b = begin.Load() {
				if b < 0 {
					return
				}
				runtime.Gosched()
			}
			id, err = g.Next()
			done.Store(round)
		}
	})
	rng := rand.New(rand.NewPCG(1, 2))
	for round := int64(1); round <= rounds; round++ {
		clock.mono.Add(int64(ms))
		s := free()
		s.NotBefore, s.Until, s.Deadline = time.Time{}, tl.Now().Add(time.Hour), clock.Monotonic()+time.Hour
		if err := tl.Bind(s); err != nil {
			t.Error(err)
		}
		begin.Store(round)
		for range rng.IntN(200) { // wait until about the moment when the call draws
			begin.Load()
		}
		last := tl.Seal()
		for done.Load() != round {
			runtime.Gosched()
		}
		if at := snowflake.Default().Decompose(id).Time; err == nil && at.After(last) {
			t.Errorf("round %d: sealed at %v, and an ID of %v was made", round, last, at)
			break
		}
	}
	begin.Store(-1)
	wg.Wait()
}
