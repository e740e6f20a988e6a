// Package leaseotel turns the events of a lease into OpenTelemetry metrics.
//
//	metrics, err := leaseotel.New(otel.GetMeterProvider())
//	agent, err := lease.Start(ctx, lease.Config{OnEvent: metrics.Event})
//	err = metrics.Observe(agent)
//
// Counters and histograms come from events; values at the time of a collection (held,
// time left, IDs made) are read from the agent. Reading them sends no request. A hanging
// meter provider does not delay renewals, since the agent calls its hook outside its loop.
//
// The instruments, with their units and attributes, are in docs/metrics.md, which a test
// compares with the exported metrics. All instruments have the attribute "pool".
package leaseotel
