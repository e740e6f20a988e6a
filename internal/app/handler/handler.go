// Package handler handles the events of the three Lambda functions; their main.go files only
// create the clients. Every function may be called again with the same event, and by several
// callers at once, because the methods of [leasepool.Pool] allow that.
//
// Work ends early enough to report its progress before the function's time is up, and
// completed work is kept. A failure for one pool does not stop the others.
package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Spec is one pool of the variable NODELEASE_POOLS.
type Spec struct {
	Pool         string `json:"pool"`
	Size         int    `json:"size"`
	ExcludeBelow int    `json:"excludeBelow"`
}

// Pools reads the value of NODELEASE_POOLS, a JSON list that the CDK construct writes, and
// reports all errors in it.
func Pools(text string) ([]Spec, error) {
	var specs []Spec
	if err := json.Unmarshal([]byte(text), &specs); err != nil {
		return nil, fmt.Errorf("NODELEASE_POOLS is %q: use a list such as [{\"pool\":\"orders\",\"size\":1024,\"excludeBelow\":0}]: %w", text, err)
	}
	errs := []error{}
	if len(specs) == 0 {
		errs = append(errs, errors.New("NODELEASE_POOLS names no pool"))
	}
	seen := map[string]bool{}
	for _, s := range specs {
		errs = append(errs, leasepool.CheckName(s.Pool))
		if seen[s.Pool] {
			errs = append(errs, fmt.Errorf("NODELEASE_POOLS names pool %q twice", s.Pool))
		}
		seen[s.Pool] = true
	}
	return specs, errors.Join(errs...)
}

// errTime is the cause when work ended because the function's time was nearly up.
var errTime = errors.New("the function's time is up; the next run continues")

// budget returns a context that ends early enough to leave time for the report and the
// answer.
func budget(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, end.Add(-min(10*time.Second, time.Until(end)/5)), errTime)
}

// eachPool runs fn for all pools at once and joins the errors. A pool that is not seeded
// yet is not an error, because schedules begin before a deployment has ended.
func eachPool(ctx context.Context, specs []Spec, fn func(ctx context.Context, log *slog.Logger, s Spec) error) error {
	thaw()
	ctx, cancel := budget(ctx)
	defer cancel()
	errs := make([]error, len(specs))
	var wg sync.WaitGroup
	for i, s := range specs {
		wg.Go(func() {
			log := logger(ctx).With("pool", s.Pool)
			err := fn(ctx, log, s)
			if errors.Is(err, lease.ErrPoolNotSeeded) {
				log.Warn("pool not seeded yet", "error", err.Error())
				return
			}
			if err != nil {
				log.Error("pool failed", "error", err.Error())
				errs[i] = fmt.Errorf("pool %q: %w", s.Pool, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
