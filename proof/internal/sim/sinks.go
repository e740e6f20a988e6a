package sim

import (
	"context"
	"log/slog"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// sink handles a process's log as a container's log driver does in blocking mode if its
// reader is slow at times.
type sink struct{ p *process }

func (s sink) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (s sink) WithAttrs([]slog.Attr) slog.Handler           { return s }
func (s sink) WithGroup(string) slog.Handler                { return s }
func (s sink) Handle(context.Context, slog.Record) error {
	s.p.block()
	return nil
}

func (p *process) logger() *slog.Logger {
	if p.Plan.has("sinks") {
		return slog.New(sink{p})
	}
	return silent
}

// block blocks the caller now and then, which is writing a log line or in a hook, until the
// faults end at the latest.
func (p *process) block() {
	if !p.Plan.has("sinks") || p.intN(20) != 0 {
		return
	}
	p.sinks.Add(1)
	_ = sleep(p.troubles, p.upTo(3*p.Plan.TTL()))
	p.sinks.Add(-1)
	p.tell("")
}

// tell records an event that the process was told. It remembers the last one that says
// whether the lease is held.
func (p *process) tell(kind lease.EventKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch kind {
	case lease.EventClaimed, lease.EventResumed, lease.EventSuspended, lease.EventLost:
		p.said = kind
	}
	p.saidAt = time.Now()
}

// told returns the last event that says whether the lease is held, and since when nothing
// was told or blocked.
func (p *process) told() (lease.EventKind, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sinks.Load() > 0 {
		return p.said, time.Now()
	}
	return p.said, p.saidAt
}
