package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A crashResult is how long the only number of a holder that died stays away.
type crashResult struct {
	name string
	// From the crash, for a claimant who waits from the crash on; and from its own
	// start, for one that comes when the lease has long run out.
	waiting, later time.Duration
}

// crashed is the lease of these runs; the holder dies right after a renewal, and
// the later claimant comes when twice the lease has passed.
const crashed = 5 * time.Second

func crashAll(ctx context.Context, cs []contender) (all []crashResult, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, c := range cs {
		if c.name == randomName {
			continue
		}
		all = append(all, crashResult{name: c.name})
		r := len(all) - 1
		one := func(to func(*crashResult) *time.Duration, pause time.Duration) {
			took, e := crashOnce(ctx, c, pause)
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				err = fmt.Errorf("%s, crash: %w", c.name, e)
			}
			*to(&all[r]) = took
		}
		wg.Go(func() { one(func(r *crashResult) *time.Duration { return &r.waiting }, 0) })
		wg.Go(func() { one(func(r *crashResult) *time.Duration { return &r.later }, 2*crashed) })
	}
	wg.Wait()
	return all, err
}

// crashOnce lets the holder of the only number die and, after a pause, another one
// claim it.
func crashOnce(ctx context.Context, c contender, pause time.Duration) (time.Duration, error) {
	set, err := c.open(ctx, newMeter(), 1, terms{lease: crashed, every: time.Second})
	if err != nil {
		return 0, err
	}
	defer set.close()
	dead, err := set.claim(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := dead.renewals(ctx, 1); err != nil {
		return 0, err
	}
	dead.crash()
	time.Sleep(pause)
	began := time.Now()
	next, err := set.claim(ctx)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, next.release(ctx)
}
