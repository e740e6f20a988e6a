package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// alone is a backend of one member.
type alone struct{ Coordinator }

func (alone) Heartbeat(_ context.Context, b Beat) (Snapshot, error) {
	return Snapshot{Members: []Member{b.Self}}, nil
}

func (alone) Expire(context.Context, string, time.Duration) error { return nil }

// Silence is measured with the clock that counts the time for which the machine was
// suspended, which the package snowflake tests: time.Since does not count it, so a
// machine that slept would come back as the same member, and lead.
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
