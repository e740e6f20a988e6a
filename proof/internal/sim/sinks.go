package sim

import (
	"context"
	"log/slog"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// sink handles a process's log in the way of a container's log driver in blocking mode whose
// reader is sometimes slow.
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

// block sometimes blocks the caller, which is writing a log line or running a hook. It
// returns when the faults end, at the latest.
func (p *process) block() {
	if !p.Plan.has("sinks") || p.intN(20) != 0 {
		return
	}
	p.sinks.Add(1)
	_ = sleep(p.troubles, p.upTo(3*p.Plan.TTL()))
	p.sinks.Add(-1)
	p.tell("")
}

// tell records an event that the process's hook was told. It remembers the last event that
// shows whether the lease is held.
func (p *process) tell(kind lease.EventKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch kind {
	case lease.EventClaimed, lease.EventResumed, lease.EventSuspended, lease.EventLost:
		p.said = kind
	case lease.EventDropped: // one of the dropped events may have been such an event
		p.said = ""
	}
	p.saidAt = time.Now()
}

// told returns the last event that shows whether the lease is held, and since when no event
// was told and no hook or log line was blocked.
func (p *process) told() (lease.EventKind, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sinks.Load() > 0 {
		return p.said, time.Now()
	}
	return p.said, p.saidAt
}
