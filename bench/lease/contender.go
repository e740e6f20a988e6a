package main

import (
	"context"
	"time"
)

// contender is one way to hold node IDs.
type contender struct {
	name string
	// open makes the given number of free node IDs, for leases with the given terms. The
	// meter does not count the requests of open.
	open func(ctx context.Context, m *meter, size int, terms terms) (nodeIDs, error)
}

// terms contains the length of a lease, and the interval at which the lease is renewed.
type terms struct{ lease, every time.Duration }

// quiet contains terms with which nobody renews while a herd is measured.
var quiet = terms{lease: 20 * time.Minute, every: 10 * time.Minute}

// nodeIDs is a set of node IDs that can be claimed.
type nodeIDs interface {
	// claim claims a node ID for a new claimant, which keeps it. If no node ID is free, it
	// waits for one.
	claim(ctx context.Context) (held, error)
	close()
}

// held is a node ID that is held.
type held interface {
	nodeID() int
	// renewals waits for n renewals and returns how long each took.
	renewals(ctx context.Context, n int) ([]time.Duration, error)
	// crash ends the holder without a release.
	crash()
	release(ctx context.Context) error
}
