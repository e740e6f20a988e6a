package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// upkeepResult is the cost of keeping and releasing node IDs.
type upkeepResult struct {
	name               string
	renewals, releases int
	renew, release     tally
	p50, p99           time.Duration
}

const (
	keepers     = 32
	renewalsOf  = 12
	renewalsAll = keepers * renewalsOf
)

// upkeep makes holders renew twice a second, and then release their node IDs.
func upkeep(ctx context.Context, c contender) (u upkeepResult, err error) {
	u = upkeepResult{name: c.name, renewals: renewalsAll, releases: keepers}
	m := newMeter()
	set, err := c.open(ctx, m, keepers, terms{lease: time.Minute, every: 500 * time.Millisecond})
	if err != nil {
		return u, err
	}
	defer set.close()
	var mu sync.Mutex
	var took []time.Duration
	holders := make([]held, keepers)
	errs := make([]error, keepers)
	together(keepers, func(i int) {
		if holders[i], errs[i] = set.claim(ctx); errs[i] != nil {
			return
		}
		var mine []time.Duration
		mine, errs[i] = holders[i].renewals(ctx, renewalsOf)
		mu.Lock()
		defer mu.Unlock()
		took = append(took, mine...)
	})
	if err := errors.Join(errs...); err != nil {
		return u, err
	}
	together(keepers, func(i int) { errs[i] = holders[i].release(ctx) })
	if err := errors.Join(errs...); err != nil {
		return u, err
	}
	u.renew, u.release = m.of(renewing), m.of(releasing)
	if u.renew.requests > u.renewals && c.name == oursName { // an agent that had renewed often enough continued to renew while others had not
		u.renewals = u.renew.requests
	}
	u.p50, u.p99 = quantile(took, .5), quantile(took, .99)
	return u, nil
}

// timed renews n times, at the interval of the terms, plus or minus 10 %.
func timed(t terms, n int, renew func() error) (took []time.Duration, err error) {
	for range n {
		time.Sleep(t.every - t.every/10 + rand.N(t.every/5+1))
		began := time.Now()
		if err := renew(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
