package lease

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// EventKind is the kind of an event. Its values appear under the key "event" in the logs.
type EventKind string

// The events of a lease.
const (
	EventClaimed     EventKind = "claimed"      // a node ID is held
	EventTaken       EventKind = "taken"        // a claim was refused: the node ID is taken
	EventCorrupt     EventKind = "corrupt"      // an item was skipped; Err is the reason
	EventWaiting     EventKind = "waiting"      // no node ID is free; Start waits
	EventUnanswered  EventKind = "unanswered"   // a request had no answer; it is retried
	EventRenewed     EventKind = "renewed"      // a renewal was confirmed; Left is the time until the deadline
	EventSuspended   EventKind = "suspended"    // the deadline passed before a renewal was confirmed
	EventResumed     EventKind = "resumed"      // a renewal was confirmed after a suspension
	EventLost        EventKind = "lost"         // the node ID is lost permanently; Err is the reason
	EventWidened     EventKind = "widened"      // the pool's node IDs become wider
	EventReleased    EventKind = "released"     // the node ID was given back
	EventNotReleased EventKind = "not_released" // the release was not confirmed
	EventWarning     EventKind = "warning"      // a problem that does not end the lease; Err is the problem
	EventDropped     EventKind = "dropped"      // this receiver was too slow and missed the number of events in Event.Dropped
)

// Event is one event of a lease, for logs, metrics and tests.
type Event struct {
	Kind EventKind
	Time time.Time
	// Lease is the last known lease. If there is none, only Pool and NodeID are set.
	Lease Lease
	// Took is how long the request took; 0 for an event without a request.
	Took time.Duration
	// Left is the time until the deadline; negative when it has passed.
	Left time.Duration
	// IDsLeft is how long generators can make IDs if no other renewal is confirmed. It is
	// longer than Left if more milliseconds are reserved than the lease needs.
	IDsLeft time.Duration
	// IDs contains the counts of the agent's generators since the agent was started: IDs
	// issued, waits, refusals, and steps of the clock.
	IDs snowflake.Stats
	// ClockError is the largest possible error of this machine's clock, as last reported by
	// ECS; 0 outside ECS.
	ClockError time.Duration
	// Reason is one word for metrics: timeout, throttled, connection, not_dynamodb, or AWS's
	// error code.
	Reason string
	// Throttled is the limit that a throttled request ran into, as reported by DynamoDB:
	// hot_key, table or account. It is empty if DynamoDB did not report the limit, or if
	// nothing was throttled.
	Throttled string
	Err       error
	// Dropped is how many events before this one were dropped (EventDropped).
	Dropped int

	report bool // this event reports that the other outlet's function panicked or ended its goroutine
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
		attrs = append(attrs, slog.Int64("version", e.Lease.Version), slog.Duration("left", e.Left.Round(time.Millisecond)),
			slog.Duration("ids_left", e.IDsLeft.Round(time.Millisecond)), slog.Duration("lease", e.Lease.TTL))
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
	if e.Throttled != "" {
		attrs = append(attrs, slog.String("throttled", e.Throttled))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	// The record has the time of the event, since events may be logged with a delay.
	r := slog.NewRecord(e.Time, e.level(), "lease "+string(e.Kind), 0)
	r.AddAttrs(attrs...)
	_ = l.Handler().Handle(context.Background(), r) // as in slog.Logger
}

// wholePool is the node ID of events about the whole pool.
const wholePool = -1

// about returns a Lease with only the pool and the node ID, for an event about a node ID
// whose lease is unknown.
func (a *Agent) about(node int) Lease { return Lease{Pool: a.cfg.Pool, NodeID: node} }

// emit passes an event on to the log and to OnEvent.
func (a *Agent) emit(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell(e)
}

// tell is emit for a caller that holds mu. When the lease changes, the event is emitted
// under the same lock as the change, so that events arrive in order.
func (a *Agent) tell(e Event) {
	e.Time = a.clock.Wall()
	e.Throttled = protocol.Limit(e.Err)
	e.Lease = Lease(protocol.Lease(e.Lease).Clone()) // the receiver may change it
	a.events.tell(e)
}

// emitNow does what emit does, and also sets the event's IDs, Left, IDsLeft and
// ClockError.
func (a *Agent) emitNow(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tellNow(e)
}

// tellNow is emitNow for a caller that holds mu.
func (a *Agent) tellNow(e Event) {
	e.IDs = a.timeline.Stats()
	e.Left, e.IDsLeft = a.term.Deadline-a.clock.Monotonic(), a.idsLeftNow()
	e.ClockError = a.ecs.clockError
	a.tell(e)
}

// unanswered emits the event of an unanswered request.
func (a *Agent) unanswered(l Lease, err error) {
	e := Event{Kind: EventUnanswered, Lease: l, Reason: protocol.Reason(err), Err: err}
	if l.Version > 0 {
		a.emitNow(e)
		return
	}
	a.emit(e)
}

// outletRoom is the maximum number of events that wait for a slow function. An agent with
// the default TTL emits that many events in about twenty minutes.
const outletRoom = 256

// outlet passes events on to one function that the user has set (Logger or OnEvent), in
// order, from a goroutine that exists only while events are waiting.
//
// The function cannot harm the agent. If it is slow or hangs, the oldest events are
// dropped and counted. If it panics or ends its goroutine, the other outlet receives a
// report.
type outlet struct {
	name   string
	fn     func(Event)
	report func(Event) // reports to the other outlet that fn panicked or ended its goroutine

	mu      sync.Mutex
	queue   []Event
	dropped int           // events dropped since fn was last told of drops
	done    chan struct{} // closed when the goroutine ends; nil when there is none
}

func (o *outlet) tell(e Event) {
	if o.fn == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == outletRoom {
		o.queue = o.queue[1:]
		o.dropped++
	}
	o.queue = append(o.queue, e)
	if o.done == nil {
		o.done = make(chan struct{})
		go o.run()
	}
}

func (o *outlet) run() {
	ended := false
	defer func() {
		if !ended { // fn called runtime.Goexit: another goroutine takes over
			go o.run()
		}
	}()
	for e, ok := o.next(); ok; e, ok = o.next() {
		o.call(e)
	}
	ended = true
}

// next returns the event to pass on now. If there is none, next returns false, and the
// goroutine must end.
func (o *outlet) next() (e Event, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		close(o.done)
		o.done = nil
		return Event{}, false
	}
	e = o.queue[0]
	if o.dropped > 0 { // the dropped events were older than the rest of the queue
		e = Event{
			Kind: EventDropped, Time: e.Time, Lease: Lease{Pool: e.Lease.Pool, NodeID: wholePool}, Dropped: o.dropped,
			Err: fmt.Errorf("lease: %s was too slow for %d events, which were dropped", o.name, o.dropped),
		}
		o.dropped = 0
		return e, true
	}
	o.queue = o.queue[1:]
	return e, true
}

// call passes one event on. If fn panics while it receives the report of another panic,
// that panic is not reported in turn. Otherwise two functions that always panic would
// report each other endlessly.
func (o *outlet) call(e Event) {
	returned := false
	defer func() {
		if returned {
			return
		}
		what := "ended its goroutine"
		if r := recover(); r != nil {
			what = fmt.Sprintf("panicked: %v\n%s", r, debug.Stack())
		}
		if !e.report {
			o.report(Event{
				Kind: EventWarning, Time: e.Time, Lease: Lease{Pool: e.Lease.Pool, NodeID: wholePool}, report: true,
				Err: fmt.Errorf("lease: %s %s", o.name, what),
			})
		}
	}()
	o.fn(e)
	returned = true
}

// drain waits until all events have been passed on, or until limit is closed, in case the
// function hangs.
func (o *outlet) drain(limit <-chan struct{}) {
	o.mu.Lock()
	done := o.done
	o.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-limit:
	}
}

// outlets are the destinations of an agent's events.
type outlets struct{ log, hook outlet }

// open sets the destinations for the events of an agent with this configuration.
func (o *outlets) open(c Config) {
	o.log = outlet{name: "Config.Logger", fn: func(e Event) { e.log(c.Logger) }, report: o.hook.tell}
	o.hook = outlet{name: "Config.OnEvent", fn: c.OnEvent, report: o.log.tell}
}

func (o *outlets) tell(e Event) {
	o.log.tell(e)
	o.hook.tell(e)
}

// drain waits for both outlets to pass on their events, for at most a second, since the
// program may end after drain.
func (o *outlets) drain() {
	over := make(chan struct{})
	stop := time.AfterFunc(time.Second, func() { close(over) })
	defer stop.Stop()
	o.log.drain(over)
	o.hook.drain(over)
	o.log.drain(over) // again, since the hook's panics are reported to the log
}
