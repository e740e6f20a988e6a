package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A herdResult is one herd: so many claimants at once on as many numbers.
type herdResult struct {
	name     string
	size     int
	took     time.Duration // until all have one
	p50, p99 time.Duration
	tally    tally
}

// each is a count per claimant.
func (h herdResult) each(n int) float64 { return float64(n) / float64(h.size) }

func (h herdResult) String() string {
	return fmt.Sprintf("%s, %d: %.2f requests, %.2f writes, %.2f queries a claim, all in %v",
		h.name, h.size, h.each(h.tally.requests), h.each(h.tally.writes), h.each(h.tally.queries), h.took.Round(time.Millisecond))
}

// herd lets so many claim at once, and gives all back.
func herd(ctx context.Context, c contender, size int) (herdResult, error) {
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
	began := time.Now()
	together(size, func(i int) {
		from := time.Now()
		holders[i], errs[i] = set.claim(ctx)
		waits[i] = time.Since(from)
	})
	h.took = time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return h, err
	}
	h.tally = m.of(claiming)
	seen := map[int]bool{}
	for _, x := range holders {
		if seen[x.number()] {
			return h, fmt.Errorf("number %d was given twice", x.number())
		}
		seen[x.number()] = true
	}
	h.p50, h.p99 = quantile(waits, .5), quantile(waits, .99)
	together(size, func(i int) { errs[i] = holders[i].release(ctx) })
	return h, errors.Join(errs...)
}

// together runs n at once and waits for all.
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

// quantile of unordered values.
func quantile(values []time.Duration, q float64) time.Duration {
	v := slices.Sorted(slices.Values(values))
	return v[min(int(q*float64(len(v))), len(v)-1)]
}
