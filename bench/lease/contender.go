package main

import (
	"context"
	"time"
)

// A contender is one way to hold numbers.
type contender struct {
	name string
	// open makes so many free numbers, unseen by the meter, for leases of a length,
	// renewed each so often.
	open func(ctx context.Context, m *meter, numbers int, terms terms) (numbers, error)
}

// terms are how long a lease lasts and how often it is renewed.
type terms struct{ lease, every time.Duration }

// quiet are terms under which nobody renews while a herd is measured.
var quiet = terms{lease: 20 * time.Minute, every: 10 * time.Minute}

// numbers is a set of numbers to be had.
type numbers interface {
	// claim gets a new claimant a node ID that it keeps, waiting for one if necessary.
	claim(ctx context.Context) (held, error)
	close()
}

// held is a number that is held.
type held interface {
	number() int
	// renewals waits for n renewals and says how long each took.
	renewals(ctx context.Context, n int) ([]time.Duration, error)
	// crash ends the holder without a word.
	crash()
	release(ctx context.Context) error
}
