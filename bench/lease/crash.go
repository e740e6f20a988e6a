package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// crashResult contains the times that it takes to claim the only node ID after its holder
// has died.
type crashResult struct {
	name string
	// waiting is the time from the crash, for a claimant that has waited since the crash.
	// later is the time from the claimant's own start, for a claimant that starts long after
	// the lease has expired.
	waiting, later time.Duration
}

// crashed is the length of the lease in these runs. The holder dies right after a renewal.
// The later claimant starts when twice this length has passed since then.
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

// crashOnce makes the holder of the only node ID die and, after a pause, another claimant claim
// the node ID.
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
