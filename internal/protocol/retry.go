package protocol

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// CallLimit is how long one request may take before the next attempt. With a shorter
// limit, the retries of many agents would increase the load.
const CallLimit = 5 * time.Second

// Backoff is the pause before try n (from 0): full jitter, 50 ms doubling up to 1 s.
// docs/benchmarks-fleet.md compares it with other pauses, by their effect on a simulated
// fleet. https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
func Backoff(n int) time.Duration { return rand.N(LongestBackoff(n)) + 1 }

// LongestBackoff is the longest pause before try n.
func LongestBackoff(n int) time.Duration { return min(time.Second, 50*time.Millisecond<<min(n, 10)) }

// Pause waits for d or the end of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Retry calls fn, each time for at most CallLimit, until it succeeds, ctx ends, or the
// error is one that a retry does not fix. It is for requests that may be repeated
// regardless of the outcome of the earlier ones.
func Retry[T any](ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if err := CheckContext(ctx); err != nil {
		return *new(T), err
	}
	var before error // the error before ctx ended
	for n := 0; ; n++ {
		one, cancel := context.WithTimeout(ctx, CallLimit)
		v, err := fn(one)
		cancel()
		var corrupt *CorruptError
		if err == nil || Permanent(err) || errors.As(err, &corrupt) || errors.Is(err, ErrUnchecked) {
			return v, err
		}
		if ctx.Err() == nil || before == nil {
			before = err
		}
		if Pause(ctx, Backoff(n)) != nil {
			return v, errors.Join(before, context.Cause(ctx))
		}
	}
}
