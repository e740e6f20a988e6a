package clustertest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
)

func TestConformanceMemory(t *testing.T) {
	clustertest.Conformance(t, func(*testing.T) clustertest.Backend {
		m := clustertest.NewMemory()
		return clustertest.Backend{Coordinator: m, Age: func(_ *testing.T, by time.Duration) { m.Age(by) }}
	})
}

// The record of a newer lease keeps an older one out only until it has had no heartbeat for
// MaxClockBack, as Coordinator promises. Then the older lease is of a pool that was seeded again,
// and its publication replaces the one before.
func TestMemoryTakesTheLeasesOfANewPool(t *testing.T) {
	m := clustertest.NewMemory()
	before := cluster.Member{Cluster: "c", Name: "a", NodeID: 7, SessionID: "before", Version: 9}
	now := cluster.Member{Cluster: "c", Name: "b", NodeID: 7, SessionID: "now", Version: 1}
	beat := func(self cluster.Member) error {
		_, err := m.Heartbeat(t.Context(), cluster.Beat{Self: self, At: time.Now(), Timeout: 15 * time.Second})
		return err
	}
	publish := func(self cluster.Member) {
		if err := m.Publish(t.Context(), self, 1, cluster.Versions{"7": self.Version}); err != nil {
			t.Fatal(err)
		}
	}
	if err := beat(before); err != nil {
		t.Fatal(err)
	}
	publish(before)
	publish(now)
	if known, err := m.Known(t.Context(), "c"); err != nil || known["7"]["7"] != 9 {
		t.Errorf("got %v, %v, want what version 9 knows", known, err)
	}
	m.Age(cluster.MaxClockBack - time.Minute)
	if err := beat(now); !errors.Is(err, cluster.ErrDropped) {
		t.Errorf("before MaxClockBack: got %v, want %v", err, cluster.ErrDropped)
	}
	m.Age(2 * time.Minute)
	if err := beat(now); err != nil {
		t.Errorf("after MaxClockBack: got %v, want nil", err)
	}
	publish(now)
	if known, err := m.Known(t.Context(), "c"); err != nil || known["7"]["7"] != 1 {
		t.Errorf("got %v, %v, want what version 1 knows", known, err)
	}
}
