// Package leaseotel turns the events of a lease into OpenTelemetry metrics.
//
//	metrics, err := leaseotel.New(otel.GetMeterProvider())
//	agent, err := lease.Start(ctx, lease.Config{OnEvent: metrics.Event})
//	err = metrics.Observe(agent)
//
// Events update most counters and the histogram. Other values, such as whether the lease
// is held, how much time is left and how many IDs were generated, are read from the agent
// at each collection. Reading these values sends no request. A meter provider that hangs
// does not delay renewals, since the agent calls OnEvent outside its renewal loop.
//
// All instruments have the attribute "pool". The page docs/metrics.md lists them with their
// units and other attributes; a test compares the page with the exported metrics.
package leaseotel
