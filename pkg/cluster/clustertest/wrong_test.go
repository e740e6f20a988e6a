package clustertest

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// wrong has backends that break a rule, by the case of the suite that must notice it.
var wrong = map[string]func(m *Memory) cluster.Coordinator{
	"each heartbeat counts":      func(m *Memory) cluster.Coordinator { return losesRenewals{m} },
	"one leader after an expiry": func(m *Memory) cluster.Coordinator { return seesItselfFirst{m} },
	"no change is skipped":       func(m *Memory) cluster.Coordinator { return &skipsChanges{Memory: m} },
	"versions grow":              func(m *Memory) cluster.Coordinator { return reordersVersions{m} },
}

// of returns the record of a beat's sender.
func (c *Memory) of(b cluster.Beat) cluster.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alive[b.Self.Cluster][b.Self.Key()]
}

// change changes the record of a beat's sender.
func (c *Memory) change(b cluster.Beat, fn func(m *cluster.Member)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.alive[b.Self.Cluster][b.Self.Key()]
	fn(&m)
	c.alive[b.Self.Cluster][b.Self.Key()] = m
}

// losesRenewals records only the first heartbeat of a session.
type losesRenewals struct{ *Memory }

func (c losesRenewals) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	before := c.of(b)
	snap, err := c.Memory.Heartbeat(ctx, b)
	if err == nil && before.Same(b.Self) {
		c.change(b, func(m *cluster.Member) { m.Heartbeat = before.Heartbeat })
	}
	return snap, err
}

// seesItselfFirst answers the first heartbeat of a member that comes back after an expiry with
// that member alone.
type seesItselfFirst struct{ *Memory }

func (c seesItselfFirst) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	before := c.of(b)
	snap, err := c.Memory.Heartbeat(ctx, b)
	if err == nil && before.SessionID != "" && !before.Same(b.Self) && time.Since(before.Heartbeat) > b.Timeout {
		snap.Members = slices.DeleteFunc(snap.Members, func(m cluster.Member) bool { return !m.Same(b.Self) })
	}
	return snap, err
}

// skipsChanges answers a session as before while there are the same names.
type skipsChanges struct {
	*Memory
	last map[string]cluster.Snapshot
}

func (c *skipsChanges) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	snap, err := c.Memory.Heartbeat(ctx, b)
	if err != nil {
		return snap, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	called := func(s cluster.Snapshot) []string {
		all := map[string]bool{}
		for _, m := range s.Members {
			all[m.Name] = true
		}
		return slices.Sorted(maps.Keys(all))
	}
	if last, ok := c.last[b.Self.SessionID]; ok && slices.Equal(called(last), called(snap)) {
		return last, nil
	}
	if c.last == nil {
		c.last = map[string]cluster.Snapshot{}
	}
	c.last[b.Self.SessionID] = snap
	return snap, nil
}

// reordersVersions counts the sessions of a member without a lease 1, 2, 1, 2.
type reordersVersions struct{ *Memory }

func (c reordersVersions) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	snap, err := c.Memory.Heartbeat(ctx, b)
	for i, m := range snap.Members {
		if m.NodeID == cluster.NoNodeID {
			snap.Members[i].Version = 2 - m.Version%2
		}
	}
	return snap, err
}

// chosen is the environment variable that names the backend of TestWrongBackend.
const chosen = "CLUSTERTEST_WRONG"

// TestWrongBackend runs the suite on a wrong backend, for TestWrongBackendsAreNoticed.
func TestWrongBackend(t *testing.T) {
	backend := wrong[os.Getenv(chosen)]
	if backend == nil {
		return
	}
	Conformance(t, func(*testing.T) Backend {
		m := NewMemory()
		return Backend{Coordinator: backend(m), Age: func(_ *testing.T, by time.Duration) { m.Age(by) }}
	})
}

// Each wrong backend fails the case that is about its mistake.
func TestWrongBackendsAreNoticed(t *testing.T) {
	for name := range wrong {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWrongBackend$", "-test.v")
		cmd.Env = append(os.Environ(), chosen+"="+name)
		out, err := cmd.CombinedOutput()
		mine := "--- FAIL: TestWrongBackend/" + strings.ReplaceAll(name, " ", "_") + " "
		if err == nil || !strings.Contains(string(out), mine) {
			t.Errorf("%s: got %v, want this case to fail:\n%s", name, err, out)
		}
	}
}
