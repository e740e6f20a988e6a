package leaseotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Observe adds the metrics that are read from the agent at each collection until the
// agent ends. The error comes from the provider.
func (m *Metrics) Observe(agent *lease.Agent) error {
	if agent.Timeline() == nil {
		return errors.New("leaseotel: Observe without an agent: it is nil or zero")
	}
	if m == nil || m.meter == nil {
		return errors.New("leaseotel: these Metrics are nil or zero: New returns them")
	}
	var all []metric.Observable
	var each []func(metric.Observer, metric.ObserveOption)
	var errs []error
	gauge := func(name, unit, what string, value func() float64) {
		g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		all, errs = append(all, g), append(errs, err)
		each = append(each, func(o metric.Observer, with metric.ObserveOption) { o.ObserveFloat64(g, value(), with) })
	}
	counter := func(name, unit, what string, value func() float64) {
		c, err := m.meter.Float64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		all, errs = append(all, c), append(errs, err)
		each = append(each, func(o metric.Observer, with metric.ObserveOption) { o.ObserveFloat64(c, value(), with) })
	}

	gauge("nodelease.node_id", "", "The node ID, held or not.", func() float64 { return float64(agent.NodeID()) })
	gauge("nodelease.lease.held", "", "1 while the lease may be relied on, else 0.", func() float64 {
		if _, err := agent.Lease(); err != nil {
			return 0
		}
		return 1
	})
	gauge("nodelease.lease.left", "s", "Time until the deadline; negative when it has passed.", func() float64 { return agent.Left().Seconds() })
	gauge("nodelease.lease.length", "s", "Length of the lease that was confirmed last.", func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.lastLength.Seconds()
	})
	gauge("nodelease.ids.left", "s", "How long IDs can be made without DynamoDB; not positive when they no longer can.", func() float64 { return agent.IDsLeft().Seconds() })
	gauge("nodelease.clock.error", "s", "How far the clock may be off, as ECS says; 0 where nobody does.", func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.lastClockError.Seconds()
	})
	counter("nodelease.lease.suspended", "s", "Time past the deadline without an answer.", func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return (m.suspendedFor + m.suspension()).Seconds()
	})
	timeline := agent.Timeline()
	counter("nodelease.ids.issued", "", "IDs made.", func() float64 { return float64(timeline.Stats().Issued) })
	counter("nodelease.ids.waits", "", "Times that a call waited for the next tick.", func() float64 { return float64(timeline.Stats().Waits) })
	counter("nodelease.ids.refused", "", "Calls for IDs that failed.", func() float64 { return float64(timeline.Stats().Refused) })
	counter("nodelease.clock.steps_forward", "", "Times that the wall clock was found ahead.", func() float64 { return float64(timeline.Stats().StepsForward) })
	counter("nodelease.clock.steps_back", "", "Times that the wall clock was found behind.", func() float64 { return float64(timeline.Stats().StepsBack) })
	if err := errors.Join(errs...); err != nil {
		return err
	}

	// These series exist from the start, so that the first event of each is recorded as an
	// increase.
	for _, kind := range []lease.EventKind{lease.EventUnanswered, lease.EventSuspended, lease.EventResumed, lease.EventLost} {
		m.events.Add(context.Background(), 0, metric.WithAttributes(attribute.String("pool", agent.Pool()), attribute.String("event", string(kind))))
	}
	for _, limit := range []string{"hot_key", "table", "account", "unknown"} {
		m.throttled.Add(context.Background(), 0, metric.WithAttributes(attribute.String("pool", agent.Pool()), attribute.String("limit", limit)))
	}
	pool := metric.WithAttributes(attribute.String("pool", agent.Pool()))
	r, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, observe := range each {
			observe(o, pool)
		}
		return nil
	}, all...)
	if err != nil {
		return err
	}
	go func() {
		<-agent.Done()
		_ = r.Unregister()
	}()
	return nil
}
