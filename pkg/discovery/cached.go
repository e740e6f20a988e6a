package discovery

import (
	"context"
	"sync"
	"time"
)

const (
	// readLimit is how long one read may take.
	readLimit = 2 * time.Second
	// restAfter is how long after a read that failed the next one is made.
	restAfter = time.Second
)

// cached is the store's last answer to one question.
type cached[T any] struct {
	asking chan struct{} // holds one: who asks, while the others wait for that answer

	mu     sync.Mutex
	value  T
	at     time.Time // when it was asked for; zero: never
	failed time.Time
	err    error
}

func newCached[T any]() *cached[T] { return &cached[T]{asking: make(chan struct{}, 1)} }

// look gives what is known, and since when.
func (c *cached[T]) look() (value T, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.at
}

// get gives the last answer if it is good, and asks again if not. With an error
// it gives the last one too.
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
		if ctx.Err() == nil { // else it says nothing of the store
			c.failed, c.err = time.Now(), err
		}
		return c.value, err
	}
	c.value, c.at, c.err = now, asked, nil
	return now, nil
}

// resting is the last failure, for a moment: callers in a hurry do not wait for
// a store that is away, one after the other.
func (c *cached[T]) resting() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil && time.Since(c.failed) < restAfter {
		return c.err
	}
	return nil
}
