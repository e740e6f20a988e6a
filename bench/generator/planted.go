package main

import (
	"runtime"
	"sync/atomic"
	"time"
)

// The two generators in this file contain bugs that occur in real generators. They show that
// the harness would catch such bugs in our generator.

const plantedEpoch = 1735689600000 // the epoch of snowflake.Default

func nowMs() int64 { return time.Now().UnixMilli() - plantedEpoch }

// twoWords keeps the last millisecond and the sequence in two words. Each word is atomic,
// but the pair is not: between the two writes, another goroutine can combine the new
// millisecond with the old sequence. After the sequence is reset, the same IDs can be made
// again.
type twoWords struct{ last, seq atomic.Int64 }

func (g *twoWords) next() int64 {
	for {
		now, last := nowMs(), g.last.Load()
		if now > last && g.last.CompareAndSwap(last, now) {
			runtime.Gosched() // widens the window enough for a short test
			g.seq.Store(0)
			return now << 22
		}
		if seq := g.seq.Add(1); now == last && seq < 4096 {
			return now<<22 | seq
		}
	}
}

// borrows uses the sequence of a future millisecond when the sequence of the present one is
// used up.
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
