package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"

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

// hook calls OnEvent in order, from one goroutine that lives only while there
// is something to tell: a slow callback delays no renewal.
type hook struct {
	fn    func(Event)
	mu    sync.Mutex
	queue []Event
	done  chan struct{} // closed when the goroutine ends; nil when there is none
}

func (h *hook) tell(e Event) {
	if h.fn == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, e)
	if h.done == nil {
		h.done = make(chan struct{})
		go h.run()
	}
}

func (h *hook) run() {
	for {
		h.mu.Lock()
		if len(h.queue) == 0 {
			close(h.done)
			h.done = nil
			h.mu.Unlock()
			return
		}
		e := h.queue[0]
		h.queue = h.queue[1:]
		h.mu.Unlock()
		h.fn(e)
	}
}

// drain waits until all is told, but not for a callback that hangs.
func (h *hook) drain(limit time.Duration) {
	h.mu.Lock()
	done := h.done
	h.mu.Unlock()
	if done == nil {
		return
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
