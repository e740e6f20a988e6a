package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// How long one request may take before another is tried.
const (
	// A renewal's answer that takes longer is worth less than another try.
	renewLimit = time.Second
	// A start has more patience: giving up early makes the load of a herd worse.
	startCallLimit = 5 * time.Second
)

// backoff is the pause before try n (from 0): full jitter, 50 ms doubling up to
// 1 s. What this and other ways do to a fleet and to its table is measured on
// paper: docs/benchmarks-fleet.md.
// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
func backoff(n int) time.Duration { return rand.N(longest(n)) + 1 }

// longest is the longest pause before try n.
func longest(n int) time.Duration { return min(time.Second, 50*time.Millisecond<<min(n, 10)) }

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retried calls fn, each time for at most startCallLimit, until it answers, ctx
// ends, or the error is one that no retry mends. It is for requests that may be
// repeated whatever became of the earlier ones.
func retried[T any](ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	var before error // what went wrong before ctx ended
	for n := 0; ; n++ {
		one, cancel := context.WithTimeout(ctx, startCallLimit)
		v, err := fn(one)
		cancel()
		var corrupt *CorruptError
		if err == nil || permanent(err) || errors.As(err, &corrupt) || errors.Is(err, errUnchecked) {
			return v, err
		}
		if ctx.Err() == nil || before == nil {
			before = err
		}
		if pause(ctx, backoff(n)) != nil {
			return v, errors.Join(before, context.Cause(ctx))
		}
	}
}
