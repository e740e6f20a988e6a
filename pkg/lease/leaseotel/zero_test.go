package leaseotel_test

import (
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leaseotel"
)

// Metrics that New did not return, and a nil or zero agent, cause errors and not panics.
func TestNilAndZero(t *testing.T) {
	zero.Methods(t, new(leaseotel.Metrics), "nil or zero")
	zero.Methods(t, (*leaseotel.Metrics)(nil), "nil or zero")
	m, err := leaseotel.New(noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range []*lease.Agent{nil, new(lease.Agent)} {
		if err := m.Observe(agent); err == nil {
			t.Error("Observe without an agent: got no error")
		}
	}
}
