package handler

import (
	"context"
	"log/slog"
	"sync"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Reaper frees what crashed processes left behind: numbers, and then the entries
// of services that were theirs.
type Reaper struct {
	Store   lease.Store
	Entries discovery.Store
	Pools   []Spec
}

// Handle reaps every pool and says what it freed, what is corrupt and what is
// stuck. The event is not looked at.
func (r *Reaper) Handle(ctx context.Context) ([]discovery.ReapReport, error) {
	var mu sync.Mutex
	reports := []discovery.ReapReport{}
	err := eachPool(ctx, r.Pools, func(ctx context.Context, log *slog.Logger, s Spec) error {
		pool := leasepool.Open(r.Store, s.Pool)
		pool.Logger = log
		report, err := discovery.Reap(ctx, pool, r.Entries)
		level := slog.LevelInfo
		if report.Braked || len(report.Stuck) > 0 || len(report.Corrupt) > 0 {
			level = slog.LevelWarn
		}
		if err == nil || len(report.Freed) > 0 || report.Cleared > 0 {
			log.Log(ctx, level, "reaped", "held", report.Held, "due", report.Due, "freed", report.Freed, "cleared", report.Cleared,
				"braked", report.Braked, "stuck", report.Stuck, "corrupt", report.Corrupt)
		}
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, report)
		return err
	})
	return reports, err
}
