package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// alone is a backend whose only member is the sender of the heartbeat.
type alone struct{ Coordinator }

func (alone) Heartbeat(_ context.Context, b Beat) (Snapshot, error) {
	return Snapshot{Members: []Member{b.Self}}, nil
}

func (alone) Expire(context.Context, string, time.Duration) error { return nil }

// Silence is measured with a clock that includes the time for which the machine was
// suspended (package snowflake tests that clock). time.Since does not include this time.
// With time.Since, a member on a machine that slept would come back with the same
// session, and could lead.
func TestSuspendIsSilence(t *testing.T) {
	n, err := Start(t.Context(), Config{Cluster: "orders", Name: "a", Coordinator: alone{}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if n.clock != snowflake.SystemClock() {
		t.Errorf("the clock is a %T, want snowflake.SystemClock", n.clock)
	}
}
