package clustertest_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
)

func TestConformanceMemory(t *testing.T) {
	clustertest.Conformance(t, func(*testing.T) clustertest.Backend {
		m := clustertest.NewMemory()
		return clustertest.Backend{Coordinator: m, Age: func(_ *testing.T, by time.Duration) { m.Age(by) }}
	})
}
