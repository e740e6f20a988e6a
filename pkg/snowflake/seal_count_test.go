package snowflake_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Seals come while another draws as fast as it can, and every ID that was made is
// one that the seals have counted: a seal takes the state word as it is when it
// ends the term, not as it was a moment before. If reading and ending were two
// steps, a draw would come in between in about one seal in a hundred that meet any,
// and one of 3,000 shows in the sum. Where no core is free, seals meet none.
func TestStressSealCountsEveryDraw(t *testing.T) {
	clock := &ticking{}
	tl := snowflake.NewTimeline(clock)
	// So many in a tick that nobody ever waits for the next one.
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
			} else { // no call until the next term: the seal's lock is to be had at once
				wait(func() bool { return open.Load() || stop.Load() })
			}
		}
	}
	// Only seals in whose course there were draws are of use. A new goroutine may
	// get another core, where all others are at work.
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
	t.Logf("%d seals, of which %d met a draw", rounds, useful)
	if issued := tl.Stats().Issued; issued != made.Load() {
		t.Errorf("%d seals counted %d IDs, and %d were made", rounds, issued, made.Load())
	}
}
