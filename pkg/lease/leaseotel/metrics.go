package leaseotel

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Metrics holds the metrics of one agent. Each agent in a process needs its own Metrics.
type Metrics struct {
	meter                    metric.Meter
	events, claims, renewals metric.Int64Counter
	throttled                metric.Int64Counter
	renewalTime              metric.Float64Histogram

	mu             sync.Mutex
	suspendedSince time.Time // zero while the lease is not suspended
	suspendedFor   time.Duration
	lastClockError time.Duration
	lastLength     time.Duration
}

// New creates the instruments. The error comes from the provider.
func New(p metric.MeterProvider) (*Metrics, error) {
	if p == nil {
		return nil, errors.New("leaseotel: New without a meter provider")
	}
	m := &Metrics{meter: p.Meter("github.com/nodelease/nodelease/pkg/lease")}
	var errs [5]error
	m.events, errs[0] = m.meter.Int64Counter("nodelease.lease.events",
		metric.WithDescription("Events of the lease, by kind."))
	m.claims, errs[1] = m.meter.Int64Counter("nodelease.claims",
		metric.WithDescription("Node IDs that were tried, by outcome: claimed, taken, corrupt, unanswered; and exhausted, when there was none to try."))
	m.renewals, errs[2] = m.meter.Int64Counter("nodelease.renewals",
		metric.WithDescription("Renewals, by outcome: confirmed, or the reason why there was no answer."))
	m.renewalTime, errs[3] = m.meter.Float64Histogram("nodelease.renewal.duration", metric.WithUnit("s"),
		metric.WithDescription("How long confirmed renewals took."),
		metric.WithExplicitBucketBoundaries(.002, .005, .01, .02, .05, .1, .2, .5, 1))
	m.throttled, errs[4] = m.meter.Int64Counter("nodelease.requests.throttled",
		metric.WithDescription("Requests that DynamoDB throttled, by the limit that it named: hot_key, table, account; else unknown."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return m, nil
}

// Event counts one event: set it as Config.OnEvent of the agent, or call it from
// your own hook.
func (m *Metrics) Event(e lease.Event) {
	if m == nil || m.meter == nil { // New did not return m
		return
	}
	ctx := context.Background()
	pool := attribute.String("pool", e.Lease.Pool)
	add := func(c metric.Int64Counter, name, value string) {
		c.Add(ctx, 1, metric.WithAttributes(pool, attribute.String(name, value)))
	}
	add(m.events, "event", string(e.Kind))
	if limit := e.Throttled; limit != "" || e.Reason == "throttled" {
		add(m.throttled, "limit", cmp.Or(limit, "unknown"))
	}
	// An unanswered request of a holder was a renewal, one of a node ID without a holder was a
	// claim, and one without a node ID was a read of the pool's item, which is neither.
	holding, claiming := e.Lease.Holder != "", e.Lease.NodeID >= 0
	switch {
	case e.Kind == lease.EventRenewed:
		add(m.renewals, "outcome", "confirmed")
		m.renewalTime.Record(ctx, e.Took.Seconds(), metric.WithAttributes(pool))
	case e.Kind == lease.EventUnanswered && holding:
		add(m.renewals, "outcome", e.Reason)
	case e.Kind == lease.EventWaiting:
		add(m.claims, "outcome", "exhausted")
	case e.Kind == lease.EventClaimed, e.Kind == lease.EventTaken, e.Kind == lease.EventCorrupt, e.Kind == lease.EventUnanswered && claiming:
		add(m.claims, "outcome", string(e.Kind))
	}
	m.note(e)
}

// note stores the values that a collection reads.
func (m *Metrics) note(e lease.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Kind == lease.EventClaimed || e.Kind == lease.EventRenewed { // other events may lack these values
		m.lastClockError, m.lastLength = e.ClockError, e.Lease.TTL
	}
	switch e.Kind {
	case lease.EventSuspended: // the events that ended the previous suspension may have been dropped
		// Invariant: the counter never goes back.
		m.suspendedFor += m.suspension()
		m.suspendedSince = time.Now()
	case lease.EventRenewed: // EventResumed itself may have been dropped
		if e.Left > 0 {
			m.suspendedFor += m.suspension()
			m.suspendedSince = time.Time{}
		}
	case lease.EventResumed, lease.EventLost, lease.EventReleased, lease.EventNotReleased:
		m.suspendedFor += m.suspension()
		m.suspendedSince = time.Time{}
	}
}

// suspension returns how long the current suspension has lasted; the caller holds mu. It
// uses the monotonic clock, since the time in an event is from the wall clock, which may
// be set.
func (m *Metrics) suspension() time.Duration {
	if m.suspendedSince.IsZero() {
		return 0
	}
	return time.Since(m.suspendedSince)
}
