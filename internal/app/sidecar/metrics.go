package sidecar

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/nodelease/nodelease/pkg/lease/leaseotel"
)

// Metrics are the sidecar's metrics for Prometheus: the metrics of the lease, from leaseotel,
// and those of the requests. Their names are part of the contract.
type Metrics struct {
	*leaseotel.Metrics
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics returns empty metrics. Pass Event to the agent as its OnEvent, and pass the
// agent to Observe once it has started.
func NewMetrics() (*Metrics, error) {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodelease_http_requests_total", Help: "Requests answered, by path and status.",
		}, []string{"path", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nodelease_http_request_duration_seconds", Help: "How long requests took, by path.",
			Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5},
		}, []string{"path"}),
	}
	m.registry.MustRegister(m.requests, m.seconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	m.Metrics, err = leaseotel.New(metric.NewMeterProvider(metric.WithReader(exporter)))
	return m, err
}

// handler answers /metrics.
func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// count counts the requests of a path.
func (m *Metrics) count(path string, next http.Handler) http.Handler {
	labels := prometheus.Labels{"path": path}
	return promhttp.InstrumentHandlerCounter(m.requests.MustCurryWith(labels),
		promhttp.InstrumentHandlerDuration(m.seconds.MustCurryWith(labels), next))
}
