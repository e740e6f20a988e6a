package main

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Two generators with a bug that real ones have, to show that the harness would
// have caught it in ours.

const plantedEpoch = 1735689600000 // that of snowflake.Default

func nowMs() int64 { return time.Now().UnixMilli() - plantedEpoch }

// twoWords keeps the last millisecond and the sequence in a word each: both are
// atomic, and the pair is not. Between the two writes another goroutine counts on
// in the sequence of the old millisecond, and the reset lets it come again.
type twoWords struct{ last, seq atomic.Int64 }

func (g *twoWords) next() int64 {
	for {
		now, last := nowMs(), g.last.Load()
		if now > last && g.last.CompareAndSwap(last, now) {
			runtime.Gosched() // the window, wide enough for a short test
			g.seq.Store(0)
			return now << 22
		}
		if seq := g.seq.Add(1); now == last && seq < 4096 {
			return now<<22 | seq
		}
	}
}

// borrows takes the sequence of milliseconds that have not come when that of the
// present one is used up.
type borrows struct{ state atomic.Int64 }

func (g *borrows) next() int64 {
	for {
		last := g.state.Load()
		next := max(nowMs()<<12, last+1)
		if g.state.CompareAndSwap(last, next) {
			return next>>12<<22 | next&4095
		}
	}
}
