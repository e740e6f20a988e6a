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
	EventClaimed     EventKind = "claimed"      // a node ID is held
	EventTaken       EventKind = "taken"        // a node ID that was tried is someone else's
	EventCorrupt     EventKind = "corrupt"      // an item was skipped; Err is the reason
	EventWaiting     EventKind = "waiting"      // no node ID is free; Start waits
	EventUnanswered  EventKind = "unanswered"   // a request had no answer; it is retried
	EventRenewed     EventKind = "renewed"      // confirmed; Left is the time until the deadline
	EventSuspended   EventKind = "suspended"    // the deadline passed unconfirmed
	EventResumed     EventKind = "resumed"      // confirmed after a suspension
	EventLost        EventKind = "lost"         // lost for good; Err is the reason
	EventWidened     EventKind = "widened"      // the pool's node IDs become wider
	EventReleased    EventKind = "released"     // given back
	EventNotReleased EventKind = "not_released" // the release was not confirmed
	EventWarning     EventKind = "warning"      // a problem that does not end the lease; Err is the problem
	EventDropped     EventKind = "dropped"      // this receiver was too slow: it missed Dropped events
)

// Event is one thing that happened, for logs, metrics and tests.
type Event struct {
	Kind EventKind
	Time time.Time
	// Lease is the lease as known now; without one only Pool and NodeID are set.
	Lease Lease
	// Took is how long the request took, if there was one.
	Took time.Duration
	// Left is the time until the deadline; negative when it has passed.
	Left time.Duration
	// IDs counts what the generators on this agent did since it was started:
	// issued, waits, refusals, steps of the clock.
	IDs snowflake.Stats
	// ClockError is the bound that ECS last reported for the error of this machine's
	// clock; 0 elsewhere.
	ClockError time.Duration
	// Reason is one word for metrics: timeout, throttled, connection, or AWS's code.
	Reason string
	Err    error
	// Dropped counts the events that are missing before this one (EventDropped).
	Dropped int

	report bool // of an outlet, about the other one
}

// level returns the level at which the event is logged.
func (e Event) level() slog.Level {
	switch e.Kind {
	case EventRenewed, EventTaken:
		return slog.LevelDebug
	case EventUnanswered, EventSuspended, EventNotReleased, EventWarning, EventWaiting, EventDropped:
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
	// The record has the time of the event: the log may be behind.
	r := slog.NewRecord(e.Time, e.level(), "lease "+string(e.Kind), 0)
	r.AddAttrs(attrs...)
	_ = l.Handler().Handle(context.Background(), r) // as slog.Logger does
}

// wholePool stands in for the node ID in an event about the whole pool.
const wholePool = -1

// about returns a Lease that names a node ID in an event, where its lease is unknown.
func (a *Agent) about(node int) Lease { return Lease{Pool: a.cfg.Pool, NodeID: node} }

// emit passes an event on to the log and to OnEvent.
func (a *Agent) emit(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell(e)
}

// tell is emit for a caller that holds mu: a change of the lease emits its event
// under the same lock, so that events arrive in order.
func (a *Agent) tell(e Event) {
	e.Time = a.clock.Wall()
	a.events.tell(e)
}

// emitNow is emit with the IDs, the time left and the clock error of this moment.
func (a *Agent) emitNow(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tellNow(e)
}

// tellNow is emitNow for a caller that holds mu.
func (a *Agent) tellNow(e Event) {
	e.IDs = a.timeline.Stats()
	e.Left = a.term.deadline - a.clock.Monotonic()
	e.ClockError = a.ecs.clockError
	a.tell(e)
}

// unanswered emits the event of a request without an answer.
func (a *Agent) unanswered(l Lease, err error) {
	e := Event{Kind: EventUnanswered, Lease: l, Reason: protocol.Reason(err), Err: err}
	if l.Version > 0 {
		a.emitNow(e)
		return
	}
	a.emit(e)
}
