package main

import "fmt"

// bar is a target that was set before anything was measured. A target that is missed is
// printed as missed.
type bar struct {
	what    string
	want    float64
	atLeast bool // want is a minimum, otherwise a maximum
	got     figure
	digits  int
}

func (b bar) met() bool {
	if b.atLeast {
		return b.got.median >= b.want
	}
	return b.got.median <= b.want
}

func (r *report) bars() []bar {
	below := func(name string, g int) result { return find(r.below, name, g) }
	atCap := func(name string, g int) result { return find(r.cap, name, g) }
	busy := func(name string, g int) result { return find(r.busy, name, g) }
	var bars []bar
	atMost := func(want float64, got figure, format string, args ...any) {
		bars = append(bars, bar{fmt.Sprintf(format, args...), want, false, got, 2})
	}
	atLeast := func(want float64, got figure, format string, args ...any) {
		bars = append(bars, bar{fmt.Sprintf(format, args...), want, true, got, 2})
	}
	for _, g := range []int{1, 2, 64} {
		atLeast(.99, atCap(ours, g).of(efficiency), "at the cap, %d: share of 4,096 IDs/ms", g)
	}
	for _, g := range []int{1, 64} {
		atMost(.45, atCap(ours, g).over(atCap(theirs, g), cpu), "at the cap, %d: CPU per ID over bwmarrin's", g)
	}
	atMost(1.5, atCap(ours, 64).of(p999), "at the cap, 64: p99.9 of a call, ms")
	atLeast(.7, atCap(ours, 64).of(fairness), "at the cap, 64: calls of the slowest goroutine over the fastest's")
	for _, g := range []int{1, 64} {
		atLeast(1.5, busy(theirs, g).over(busy(ours, g), perID), "at the cap, %d, 4 busy neighbours: throughput over bwmarrin's", g)
	}
	atMost(.95, below(ours, 1).over(below(theirs, 1), perID), "below the cap, 1: Next over bwmarrin")
	atMost(1.25, below(ours, 2).over(below(theirs, 2), perID), "below the cap, 2: Next over bwmarrin")
	atMost(.5, below(ours, 64).over(below(theirs, 64), perID), "below the cap, 64: Next over bwmarrin")
	atMost(1.25, below(ours, 1).over(below(floor, 1), perID), "below the cap, 1: Next over the floor (time.Since + atomic.Add)")
	atMost(.95, below(ours, 1).over(below(theirs, 1), cpu), "below the cap, 1: Next over bwmarrin, in CPU time")
	atMost(1.25, below(ours, 1).over(below(floor, 1), cpu), "below the cap, 1: Next over the floor, in CPU time")
	for _, g := range []int{1, 2, 64} {
		atMost(1, below("nodelease NextN(1000)", g).of(perID), "below the cap, %d: NextN(1000), ns per ID", g)
	}
	return bars
}
