package lease

import (
	"context"
	"log/slog"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// EventKind names what happened. The values are the "event" key of the logs.
type EventKind string

// What can happen to a lease.
const (
	EventClaimed     EventKind = "claimed"      // a number is held
	EventTaken       EventKind = "taken"        // a number that was tried is someone else's
	EventCorrupt     EventKind = "corrupt"      // an item was skipped: Err says why
	EventWaiting     EventKind = "waiting"      // no number is free; Start waits
	EventUnanswered  EventKind = "unanswered"   // a request had no answer; it is tried again
	EventRenewed     EventKind = "renewed"      // confirmed; Left is the time until the deadline
	EventSuspended   EventKind = "suspended"    // the deadline passed unconfirmed
	EventResumed     EventKind = "resumed"      // confirmed after a suspension
	EventLost        EventKind = "lost"         // someone else's, for good: Err says how
	EventWidened     EventKind = "widened"      // the pool's node IDs become wider
	EventReleased    EventKind = "released"     // given back
	EventNotReleased EventKind = "not_released" // giving back was not confirmed
	EventWarning     EventKind = "warning"      // something the start could not look at
)

// Event is one thing that happened, for logs, metrics and tests.
type Event struct {
	Kind EventKind
	Time time.Time
	// Lease as it is known now; only Pool and NodeID are set where no lease is.
	Lease Lease
	// Took is how long the request took, if there was one.
	Took time.Duration
	// Left is the time until the deadline; negative when it has passed.
	Left time.Duration
	// IDs counts what the generators on this agent did since it was started:
	// issued, waits, refusals, steps of the clock.
	IDs snowflake.Stats
	// ClockError is how far off ECS says that this machine's clock may be, as it was
	// asked last; 0 where nobody says.
	ClockError time.Duration
	// Reason is a word for metrics: timeout, throttled, connection, or AWS's code.
	Reason string
	Err    error
}

// level is how much a reader of the logs should care.
func (e Event) level() slog.Level {
	switch e.Kind {
	case EventRenewed, EventTaken:
		return slog.LevelDebug
	case EventUnanswered, EventSuspended, EventNotReleased, EventWarning, EventWaiting:
		return slog.LevelWarn
	case EventCorrupt, EventLost:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// log writes the event with the keys that docs and dashboards rely on.
func (e Event) log(l *slog.Logger) {
	if !l.Enabled(context.Background(), e.level()) {
		return
	}
	attrs := []slog.Attr{slog.String("event", string(e.Kind)), slog.String("pool", e.Lease.Pool), slog.Int("node_id", e.Lease.NodeID)}
	if e.Lease.Version != 0 {
		attrs = append(attrs, slog.Int64("version", e.Lease.Version), slog.Duration("left", e.Left.Round(time.Millisecond)))
	}
	if e.Took != 0 {
		attrs = append(attrs, slog.Duration("took", e.Took.Round(time.Microsecond)))
	}
	if e.IDs.Issued != 0 || e.IDs.Refused != 0 {
		attrs = append(attrs, slog.Uint64("ids", e.IDs.Issued), slog.Uint64("ids_refused", e.IDs.Refused))
	}
	if e.Reason != "" {
		attrs = append(attrs, slog.String("reason", e.Reason))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	l.LogAttrs(context.Background(), e.level(), "lease "+string(e.Kind), attrs...)
}

// wholePool stands for the number in an event that concerns none.
const wholePool = -1

// about names the number that an event concerns, where no lease of it is known.
func (a *Agent) about(node int) Lease { return Lease{Pool: a.cfg.Pool, NodeID: node} }

// emit tells the log and the hook.
func (a *Agent) emit(e Event) {
	e.Time = a.clock.Wall()
	e.log(a.cfg.Logger)
	a.hook.tell(e)
}

// asOfNow adds to an event what is true at this moment.
func (a *Agent) asOfNow(e Event) Event {
	e.IDs = a.timeline.Stats()
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Left = a.term.deadline - a.clock.Monotonic()
	e.ClockError = a.ecs.clockError
	return e
}

// unanswered tells of a request that comes to nothing for now.
func (a *Agent) unanswered(l Lease, err error) {
	e := Event{Kind: EventUnanswered, Lease: l, Reason: protocol.Reason(err), Err: err}
	if l.Version > 0 {
		e = a.asOfNow(e)
	}
	a.emit(e)
}
