package discovery

import (
	"context"
	"sync"
	"time"
)

const (
	// readLimit is how long one read of the store may take.
	readLimit = 2 * time.Second
	// restAfter is the pause between a failed read and the next one.
	restAfter = time.Second
)

// cached is the last answer of the store to one kind of request.
type cached[T any] struct {
	asking chan struct{} // has room for one caller, which reads; the others wait for its answer

	mu     sync.Mutex
	value  T
	at     time.Time // when value was requested; zero if it never was
	failed time.Time
	err    error
}

func newCached[T any]() *cached[T] { return &cached[T]{asking: make(chan struct{}, 1)} }

// look returns the last answer and its time.
func (c *cached[T]) look() (value T, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.at
}

// get returns the last answer if good accepts it, and otherwise reads again. If it
// returns an error, it returns the last answer as well.
func (c *cached[T]) get(ctx context.Context, good func(value T, at time.Time) bool, read func(context.Context) (T, error)) (T, error) {
	known := func() (T, bool) {
		v, at := c.look()
		return v, !at.IsZero() && good(v, at)
	}
	if v, ok := known(); ok {
		return v, nil
	}
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		v, _ := c.look()
		return v, context.Cause(ctx)
	}
	v, ok := known()
	if ok {
		return v, nil
	}
	if err := c.resting(); err != nil {
		return v, err
	}
	asked := time.Now()
	one, cancel := context.WithTimeout(ctx, readLimit)
	now, err := read(one)
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil { // otherwise the error says nothing about the store
			c.failed, c.err = time.Now(), err
		}
		return c.value, err
	}
	c.value, c.at, c.err = now, asked, nil
	return now, nil
}

// resting returns the last error for a short time after the failed read, so that callers
// do not wait for an unreachable store one after the other.
func (c *cached[T]) resting() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil && time.Since(c.failed) < restAfter {
		return c.err
	}
	return nil
}
