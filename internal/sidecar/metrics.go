package sidecar

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Metrics counts what happens to a lease and to the requests, for Prometheus. The
// names are part of the contract.
type Metrics struct {
	registry *prometheus.Registry
	events   *prometheus.CounterVec
	renewals prometheus.Histogram
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics makes empty ones. Give Event to the agent as its OnEvent.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodelease_lease_events_total", Help: "What happened to the lease, by kind; see the lease agent's events.",
		}, []string{"event"}),
		renewals: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nodelease_renewal_duration_seconds", Help: "How long confirmed renewals took.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5, 1},
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodelease_http_requests_total", Help: "Requests answered, by path and status.",
		}, []string{"path", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nodelease_http_request_duration_seconds", Help: "How long requests took, by path.",
			Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5},
		}, []string{"path"}),
	}
	m.registry.MustRegister(m.events, m.renewals, m.requests, m.seconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, kind := range []lease.EventKind{lease.EventClaimed, lease.EventRenewed, lease.EventUnanswered, lease.EventSuspended, lease.EventResumed, lease.EventLost} {
		m.events.WithLabelValues(string(kind)) // there from the start, so that the first one is a rise
	}
	return m
}

// Event counts one event.
func (m *Metrics) Event(e lease.Event) {
	m.events.WithLabelValues(string(e.Kind)).Inc()
	if e.Kind == lease.EventRenewed {
		m.renewals.Observe(e.Took.Seconds())
	}
}

// handler is what /metrics answers.
func (m *Metrics) handler(agent *lease.Agent, ids *snowflake.Generator) http.Handler {
	gauge := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	counter := func(name, help string, f func(snowflake.Stats) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(f(ids.Stats())) }))
	}
	gauge("nodelease_node_id", "The number, held or not.", func() float64 { return float64(agent.NodeID()) })
	gauge("nodelease_lease_held", "1 while the lease may be relied on, else 0.", func() float64 {
		if _, err := agent.Lease(); err != nil {
			return 0
		}
		return 1
	})
	gauge("nodelease_lease_left_seconds", "Time until the deadline; negative when it has passed.", func() float64 { return agent.Left().Seconds() })
	counter("nodelease_ids_issued_total", "IDs made.", func(s snowflake.Stats) uint64 { return s.Issued })
	counter("nodelease_ids_waits_total", "Times that a call waited for the next tick.", func(s snowflake.Stats) uint64 { return s.Waits })
	counter("nodelease_ids_refused_total", "Calls for IDs that failed.", func(s snowflake.Stats) uint64 { return s.Refused })
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// count counts the requests of a path.
func (m *Metrics) count(path string, next http.Handler) http.Handler {
	labels := prometheus.Labels{"path": path}
	return promhttp.InstrumentHandlerCounter(m.requests.MustCurryWith(labels),
		promhttp.InstrumentHandlerDuration(m.seconds.MustCurryWith(labels), next))
}
