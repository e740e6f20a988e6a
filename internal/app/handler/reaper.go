package handler

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Reaper frees what crashed processes left behind: their node IDs, and then the discovery
// entries of their services.
type Reaper struct {
	Store   lease.Store
	Entries discovery.Store
	Pools   []Spec

	mu    sync.Mutex
	known map[string]*leasepool.Pool
}

// pool returns the same handle at each invocation of a process, because the handle
// remembers errors that could not be recorded in the table.
func (r *Reaper) pool(name string, log *slog.Logger) *leasepool.Pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]*leasepool.Pool{}
	}
	if r.known[name] == nil {
		r.known[name] = leasepool.Open(r.Store, name)
	}
	r.known[name].Logger = log
	return r.known[name]
}

// Handle scans every pool and reports the leases that it freed, corrupt items, and stuck
// node IDs. The event is ignored.
func (r *Reaper) Handle(ctx context.Context) ([]leasepool.ReapReport, error) {
	var mu sync.Mutex
	reports := []leasepool.ReapReport{}
	err := eachPool(ctx, r.Pools, func(ctx context.Context, log *slog.Logger, s Spec) error {
		report, err := r.pool(s.Pool, log).Reap(ctx)
		var unswept error
		if err == nil {
			// Tend is done for the agents, whose roles may not write all of the pool's item.
			// Invariant: what is wrong with the entries of services never keeps the pool from it. So
			// it comes first, since a sweep that gets no answer takes all of the function's time.
			if _, failed := r.pool(s.Pool, log).Tend(ctx); failed != nil {
				log.Warn("the pool's groups, its width or the verdict on its table were not checked; the next run tries again", "error", failed.Error())
			}
			report.Cleared, unswept = discovery.Sweep(ctx, r.Entries, s.Pool)
		}
		level := slog.LevelInfo
		if report.Braked || len(report.Stuck)+len(report.Corrupt) > 0 {
			level = slog.LevelWarn
		}
		if len(report.Forged) > 0 {
			level = slog.LevelError
		}
		if err == nil || len(report.Freed) > 0 {
			log.Log(ctx, level, "reaped", "held", report.Held, "due", report.Due, "freed", report.Freed, "cleared", report.Cleared,
				"braked", report.Braked, "next_look", report.NextLook, "stuck", report.Stuck, "corrupt", report.Corrupt, "forged", report.Forged)
		}
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, report)
		return errors.Join(err, unswept)
	})
	return reports, err
}
