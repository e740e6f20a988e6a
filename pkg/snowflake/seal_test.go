package snowflake_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

func TestSealGivesTheLastMillisecond(t *testing.T) {
	forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
		clock := newFrozen()
		tl, g := bind(t, clock, free())
		f := call(g)
		if last := tl.Seal(); !last.IsZero() {
			t.Errorf("nothing stamped: sealed at %v, want the zero time", last)
		}
		wantFenced(t, f, snowflake.ErrFenced)
		tl.Extend(noon.Add(time.Hour), clock.Monotonic()+time.Hour) // a late answer does not end the seal
		wantFenced(t, f, snowflake.ErrFenced)

		if err := tl.Bind(free()); err != nil {
			t.Fatal(err)
		}
		first := mustMake(t, f)
		clock.advance(5 * ms)
		second := mustMake(t, f)
		clock.advance(5 * ms)
		for range 2 {
			if last := tl.Seal(); !last.Equal(second.Time()) || !last.Equal(noon.Add(5*ms)) {
				t.Errorf("sealed at %v, want noon + 5 ms, the second ID's time", last)
			}
		}

		// IDs keep growing with another node ID, even if the clock was set back and the span
		// has the same milliseconds.
		clock.step(-5 * ms)
		s := free()
		s.NodeID = 3
		if err := tl.Bind(s); err != nil {
			t.Fatal(err)
		}
		wantFenced(t, g.TryNext, snowflake.ErrBusy)
		clock.advance(ms)
		third := mustMake(t, f)
		if third <= second || third.Node() != 3 || second <= first {
			t.Errorf("got %d, %d, %d, want larger ones each time, the third of node 3", first, second, third)
		}
		if last := tl.Close(); !last.Equal(third.Time()) {
			t.Errorf("closed at %v, want the third ID's time", last)
		}
		wantFenced(t, f, snowflake.ErrClosed)
		if last := tl.Close(); !last.Equal(third.Time()) {
			t.Errorf("closed again at %v, want the third ID's time", last)
		}
		if err := tl.Bind(free()); err != snowflake.ErrClosed {
			t.Errorf("Bind after Close: got %v, want ErrClosed", err)
		}
		wantFenced(t, f, snowflake.ErrClosed)
	})
}

// A waiting caller has a ticket for a millisecond that has not begun. When the seal comes,
// that millisecond is not stamped, and the caller is fenced.
func TestSealBeforeAWaitingCallersTick(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	useUp(t, g)
	var last time.Time
	clock.asleep = func(time.Duration) { last = tl.Seal() }
	wantFenced(t, g.Next, snowflake.ErrFenced)
	if !last.Equal(noon) {
		t.Errorf("sealed at %v, want noon", last)
	}
	if s := g.Stats(); s.Issued != 4096 {
		t.Errorf("got %+v, want Issued 4096", s)
	}
}

// If a waiting caller's millisecond has begun when the seal comes, the caller gets its
// ID, and Seal returns exactly that millisecond.
func TestSealInAWaitingCallersTick(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	useUp(t, g)
	var last time.Time
	clock.asleep = func(d time.Duration) { clock.advance(d); last = tl.Seal() }
	id, err := g.Next()
	if err != nil || !id.Time().Equal(noon.Add(ms)) || !last.Equal(id.Time()) {
		t.Errorf("got an ID of %v, %v, want noon + 1 ms; sealed at %v", id.Time(), err, last)
	}
	if s := g.Stats(); s.Issued != 4097 {
		t.Errorf("got %+v, want Issued 4097", s)
	}
}

// Just before a waiting caller reads the clock, the timeline is sealed and the clock
// moves. So the caller's tick has begun by the caller's reading, but not by the seal's
// reading.
func TestSealBetweenAReadingAndItsUse(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	useUp(t, g)
	var last time.Time
	clock.asleep = func(time.Duration) {
		clock.beforeRead = func() {
			clock.beforeRead = nil
			last = tl.Seal()
			clock.advance(ms)
		}
	}
	wantFenced(t, g.Next, snowflake.ErrFenced)
	if !last.Equal(noon) {
		t.Errorf("sealed at %v, want noon", last)
	}
}

// A call that comes after the seal has read the clock, and before the seal ends, stamps
// nothing later than that reading.
func TestCallDuringSeal(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	next(t, g)
	done := make(chan ID, 1)
	clock.onRead(func() {
		clock.advance(ms)
		go func() { id, _ := g.Next(); done <- id }()
		for range 1000 { // the call does not end while the seal holds the lock
			runtime.Gosched()
		}
	})
	last := tl.Seal()
	if id := <-done; id != 0 {
		t.Errorf("sealed at %v, then got an ID of %v, want none", last, id.Time())
	}
}

// If a block has unused tickets when the timeline is sealed, these tickets stay void,
// whatever happens later.
func TestLateRenewalAfterSeal(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	b := g.Block()
	mustMake(t, b.Next)
	tl.Seal()
	tl.Extend(noon.Add(time.Hour), clock.Monotonic()+time.Hour)
	wantFenced(t, b.Next, snowflake.ErrFenced)
}

// If a call draws a ticket while it waits for the last holder's milliseconds to pass,
// that ticket is not treated as stamped.
func TestSealWhileWaitingForNotBefore(t *testing.T) {
	clock := newFrozen()
	s := free()
	s.NotBefore = noon
	tl, g := bind(t, clock, s)
	last := noon
	clock.asleep = func(time.Duration) { last = tl.Seal() }
	wantFenced(t, g.Next, snowflake.ErrFenced)
	if !last.IsZero() {
		t.Errorf("sealed at %v, want the zero time", last)
	}
}

// A call that is waiting when its node ID is replaced returns an ID made with the new node
// ID. It does not fail with ErrFenced.
func TestRebindUnderAWaitingCall(t *testing.T) {
	clock := newFrozen()
	tl, g := bind(t, clock, free())
	last := useUp(t, g)
	clock.asleep = func(d time.Duration) {
		clock.asleep = clock.advance
		s := free()
		s.NodeID, s.NotBefore = 9, noon.Add(3*ms)
		if err := tl.Bind(s); err != nil {
			t.Error(err)
		}
	}
	id := next(t, g)
	if id.Node() != 9 || !id.Time().Equal(noon.Add(4*ms)) || id <= last {
		t.Errorf("got an ID of %v, node %d, want a larger one of noon + 4 ms and node 9", id.Time(), id.Node())
	}
}

// All generators on one node draw tickets from the same state.
func TestGeneratorsOnOneNode(t *testing.T) {
	clock := newFrozen()
	tl, g1 := bind(t, clock, free())
	g2 := generator(t, tl, snowflake.WithStrictWall())
	var last ID
	for range 2000 {
		for _, g := range []*snowflake.Generator{g1, g2} {
			id := next(t, g)
			if id <= last {
				t.Fatalf("got %d after %d, want a larger ID", id, last)
			}
			last = id
		}
	}
	if s1, s2 := g1.Stats(), g2.Stats(); s1 != s2 || s1.Issued != 4000 {
		t.Errorf("got %+v and %+v, want the same counts, with 4,000 issued", s1, s2)
	}
	tl.Seal()
	wantFenced(t, g1.Next, snowflake.ErrFenced)
	wantFenced(t, g2.Next, snowflake.ErrFenced)
}

// The timeline is sealed again and again while another goroutine draws as fast as it can.
// The seals must count every ID that was made: a seal reads the state word and ends the
// term in one step. If these were two steps, a draw would come in between in about one of
// a hundred seals during which there are draws. The sum reveals a single such draw in
// 3,000 seals. If no core is free, there are no draws during seals.
func TestStressSealCountsEveryDraw(t *testing.T) {
	clock := &ticking{}
	tl := snowflake.NewTimeline(clock)
	// A tick contains so many IDs that no call waits for the next tick, unless this
	// goroutine gets no core for a while. In that case the clock moves, since otherwise the
	// test would hang.
	clock.moves.Store(true)
	l := snowflake.Layout{Epoch: snowflake.Default().Epoch, Tick: ms, TimeBits: 41, NodeBits: 3, SequenceBits: 19}
	g := generator(t, tl, snowflake.WithLayout(l))
	s := free()
	s.Nodes = 8
	var open, stop atomic.Bool
	var made atomic.Uint64
	wait := func(until func() bool) {
		for n := 1; !until(); n++ {
			if n%1000 == 0 {
				runtime.Gosched()
			}
		}
	}
	draw := func() {
		for !stop.Load() {
			if _, err := g.Next(); err == nil {
				made.Add(1)
			} else { // make no calls until the next term begins, so that Seal gets the lock at once
				wait(func() bool { return open.Load() || stop.Load() })
			}
		}
	}
	// Only seals during which there were draws are useful. The goroutine is replaced from
	// time to time, since a new one may get a different core if all others are busy.
	rounds, useful := 0, 0
	for limit := time.Now().Add(3 * time.Second); useful < 3000 && time.Now().Before(limit) && !t.Failed(); {
		var wg sync.WaitGroup
		stop.Store(false)
		wg.Go(draw)
		for range 200 {
			rounds++
			clock.mono.Add(int64(ms))
			if err := tl.Bind(s); err != nil {
				t.Error(err)
			}
			open.Store(true)
			some := made.Load() + 8
			wait(func() bool { return made.Load() >= some })
			open.Store(false)
			before := made.Load()
			tl.Seal()
			if made.Load() > before {
				useful++
			}
		}
		stop.Store(true)
		wg.Wait()
	}
	t.Logf("%d seals, %d of them during a draw", rounds, useful)
	if issued := tl.Stats().Issued; issued != made.Load() {
		t.Errorf("%d seals counted %d IDs, want %d", rounds, issued, made.Load())
	}
}
