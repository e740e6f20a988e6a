// Package leaseotel turns what happens to a lease into OpenTelemetry metrics.
//
//	metrics, err := leaseotel.New(otel.GetMeterProvider())
//	agent, err := lease.Start(ctx, lease.Config{OnEvent: metrics.Event})
//	err = metrics.Observe(agent)
//
// Events give the counters and histograms; what is true at the moment of a
// collection (held, time left, IDs made) is asked of the agent. It makes no
// request, and a meter provider that hangs delays no renewal, since the agent
// calls its hook apart from its loop.
//
// The instruments, with their units and attributes, are in docs/metrics.md,
// which a test compares with what is exported. Every one has the attribute
// "pool".
package leaseotel
