package demo

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// watcher reads the table for the board, and is the reaper of the demo.
type watcher struct {
	Options
	store lease.Store
	board *Board
}

const (
	watchEvery = 250 * time.Millisecond
	watchLimit = 2 * time.Second
)

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var failed, measured time.Time
	for ctx.Err() == nil {
		leases, err := w.look(ctx)
		if err != nil {
			failed = time.Now()
		} else {
			w.board.table(leases)
			if w.Outage && time.Since(measured) > w.TTL { // without an outage no lease grows, so no measurement is needed
				w.measure(ctx)
				measured = time.Now()
			}
			// After an outage every lease has expired, so the fleet gets time to resume.
			since := time.Since(failed)
			if since > w.TTL && (since > w.comeBack() || !w.board.anySuspended()) {
				w.reap(ctx, leases)
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// measure counts the pool's node IDs, as the poolmetric function does, because leases grow
// only while the measurement shows that there is room.
func (w *watcher) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	pool, at := leasepool.Open(w.store, w.Pool), time.Now()
	s, err := pool.Stats(ctx)
	if err == nil {
		err = pool.Measure(ctx, s, at)
	}
	if err != nil && ctx.Err() == nil && !w.board.isOut() {
		w.board.Tell("warning", "the pool cannot be measured, so leases do not grow: %v", err)
	}
}

// look reads the whole pool.
func (w *watcher) look(ctx context.Context) ([]lease.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	var leases []lease.Lease
	for i := range (protocol.PoolItem{Size: w.Size}).Groups() {
		g, err := w.store.Group(ctx, w.Pool, i)
		if err != nil {
			return nil, err
		}
		for _, l := range g.Leases {
			leases = append(leases, lease.Lease(l))
		}
	}
	return leases, nil
}

// reap frees leases that have been expired for long enough.
func (w *watcher) reap(ctx context.Context, leases []lease.Lease) {
	for _, l := range leases {
		if l.Holder == "" || !time.Now().After(l.ExpiresAt.Add(reapAfter)) {
			continue
		}
		one, cancel := context.WithTimeout(ctx, watchLimit)
		res, err := w.store.Write(one, protocol.Reap{Key: protocol.Key{Pool: w.Pool, NodeID: l.NodeID}, Holder: l.Holder, Version: l.Version, Renewal: l.Renewal})
		cancel()
		if err == nil && res.Applied {
			w.board.Tell("reaped", "node %d, which %s stopped renewing", l.NodeID, l.Task)
		}
	}
}
