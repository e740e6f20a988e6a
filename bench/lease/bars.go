package main

import "fmt"

// bar is a target that was set before anything was measured. A target that is missed is
// printed as missed.
type bar struct {
	what    string
	want    float64
	atLeast bool // want is a minimum, otherwise a maximum
	got     float64
	bound   bool // got is only a lower bound, because a herd was cut off
}

func (b bar) met() bool {
	if b.atLeast {
		return b.got >= b.want
	}
	return b.got <= b.want
}

func (r *report) bars() (bars []bar) {
	atMost := func(want, got float64, format string, args ...any) {
		bars = append(bars, bar{fmt.Sprintf(format, args...), want, false, got, false})
	}
	atLeast := func(want, got float64, format string, args ...any) {
		bars = append(bars, bar{fmt.Sprintf(format, args...), want, true, got, false})
	}
	most := r.sizes[len(r.sizes)-1]
	us, inOrder, random := r.herd(oursName, most), r.herd(inOrderName, most), r.herd(randomName, most)
	lone := r.herd(oursName, 1)
	atMost(2, lone.each(lone.tally.requests), "a start alone: requests")
	atMost(3, us.each(us.tally.requests), "a claim in a herd of %d: requests", most)
	atMost(1.6, us.each(us.tally.writes), "a claim in a herd of %d: conditional writes", most)
	atMost(3, us.tally.readUnits/float64(most), "a claim in a herd of %d: read units", most)
	atMost(1, us.each(us.tally.queries), "a claim in a herd of %d: Queries", most)
	atLeast(20, float64(inOrder.tally.requests)/float64(us.tally.requests), "a herd of %d: requests of dynamolock in key order over ours", most)
	bars[len(bars)-1].bound = inOrder.cut()
	atLeast(1, float64(random.tally.requests)/float64(us.tally.requests), "a herd of %d: requests of dynamolock in random order over ours", most)
	atMost(1, us.took.Seconds()/random.took.Seconds(), "a herd of %d: wall time over that of dynamolock in random order", most)
	up := r.upkeep(oursName)
	atMost(1, float64(up.renew.requests)/float64(up.renewals), "a renewal: requests")
	atMost(1, up.renew.writeUnits/float64(up.renewals), "a renewal: write units")
	atMost(0, up.renew.readUnits, "a renewal: read units")
	atMost(1.2, r.plain.ratio(), "a renewal: time over that of a plain conditional write")
	atMost(1.2, r.plain.claimRatio(), "the write of a claim: time over that of a plain conditional write")
	return bars
}
