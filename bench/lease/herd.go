package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// herdResult is the result of one herd, which is many claimants that claim as many node IDs
// at once.
type herdResult struct {
	name     string
	size     int
	took     time.Duration // until all claimants have a node ID
	p50, p99 time.Duration
	tally    tally
	placed   int // how many claimants got a node ID; fewer than size if the time limit passed first
}

// cut reports whether the time limit passed before all claimants had a node ID. If so, the
// counts are lower bounds, since they cover only the requests until the time limit.
func (h herdResult) cut() bool { return h.placed < h.size }

// each returns a count divided by the number of claimants.
func (h herdResult) each(n int) float64 { return float64(n) / float64(h.size) }

func (h herdResult) String() string {
	return fmt.Sprintf("%s, %d: %d have one; %.2f requests, %.2f writes, %.2f queries a claim in %v",
		h.name, h.size, h.placed, h.each(h.tally.requests), h.each(h.tally.writes), h.each(h.tally.queries), h.took.Round(time.Millisecond))
}

// herd makes size claimants claim at once, for at most patience, and then releases everything.
func herd(ctx context.Context, c contender, size int, patience time.Duration) (herdResult, error) {
	h := herdResult{name: c.name, size: size}
	m := newMeter()
	set, err := c.open(ctx, m, size, quiet)
	if err != nil {
		return h, err
	}
	defer set.close()
	holders := make([]held, size)
	waits := make([]time.Duration, size)
	errs := make([]error, size)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	together(size, func(i int) {
		from := time.Now()
		holders[i], errs[i] = set.claim(limited)
		waits[i] = time.Since(from)
	})
	h.took = time.Since(began)
	late := limited.Err() != nil
	h.tally = m.of(claiming)
	seen := map[int]bool{}
	for i, x := range holders {
		switch {
		case errs[i] != nil && late:
			continue
		case errs[i] != nil:
			return h, errs[i]
		case seen[x.nodeID()]:
			return h, fmt.Errorf("node ID %d was leased twice", x.nodeID())
		}
		seen[x.nodeID()] = true
	}
	h.placed = len(seen)
	h.p50, h.p99 = quantile(waits, .5), quantile(waits, .99)
	// Releases are not measured here, and may fail if DynamoDB Local is too slow, since the
	// table is not used again.
	for first := 0; first < size; first += 32 {
		together(min(32, size-first), func(i int) {
			if errs[first+i] == nil {
				_ = holders[first+i].release(ctx)
			}
		})
	}
	return h, nil
}

// together calls do n times at once and waits for all calls.
func together(n int, do func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			do(i)
		})
	}
	close(begin)
	wg.Wait()
}

// quantile returns the q-quantile of unordered values.
func quantile(values []time.Duration, q float64) time.Duration {
	v := slices.Sorted(slices.Values(values))
	return v[min(int(q*float64(len(v))), len(v)-1)]
}
