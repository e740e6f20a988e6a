package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *lines) to(c *cluster.Config) { c.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// hoarding is a coordinator that cannot forget records.
type hoarding struct {
	cluster.Coordinator
	runs atomic.Int64
}

func (h *hoarding) Expire(context.Context, string, time.Duration) error {
	h.runs.Add(1)
	return errors.New("it may not write")
}

// A run of Expire that fails is repeated, but not with each heartbeat: it reads all records.
func TestFailedExpireIsNotRepeatedAtOnce(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		c := &hoarding{Coordinator: clustertest.NewMemory()}
		var log lines
		join(t, c, "a", log.to)
		fixture.Wait(10 * time.Minute)
		if runs := c.runs.Load(); runs < 5 || runs > 11 {
			t.Errorf("got %d runs in 10 minutes, want one a minute", runs)
		}
		if got := log.count("cluster expire failed"); got != int(c.runs.Load()) {
			t.Errorf("got %d lines about %d runs", got, c.runs.Load())
		}
	})
}

// mute is a coordinator that records heartbeats with a warning, and no known versions.
type mute struct{ cluster.Coordinator }

func (m mute) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	snap, err := m.Coordinator.Heartbeat(ctx, b)
	snap.Warning = errors.New("no digest")
	return snap, err
}

func (mute) Publish(context.Context, cluster.Member, int64, cluster.Versions) error {
	return errors.New("it may not write")
}

// A failure that comes with each heartbeat, although the heartbeat itself succeeds, is logged
// once a minute.
func TestContinuingWarningsAreLoggedOnceAMinute(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		var log lines
		join(t, mute{clustertest.NewMemory()}, "a", log.to, func(c *cluster.Config) { c.PublishKnown = true })
		fixture.Wait(10 * time.Minute)
		for _, text := range []string{"no digest", "known versions not published"} {
			if got := log.count(text); got < 5 || got > 11 {
				t.Errorf("%s: got %d lines in 10 minutes, want one a minute", text, got)
			}
		}
	})
}

// Two live processes with the same name and without leases take the record from each
// other. Both log a warning. A single process logs none after a restart.
func TestNamesakesWithoutLeases(t *testing.T) {
	for _, namesakes := range []bool{true, false} {
		fixture.Virtual(t, func(t *testing.T) {
			c := clustertest.NewMemory()
			var a, b lines
			first := join(t, c, "same", a.to)
			if !namesakes {
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
			}
			join(t, c, "same", b.to)
			fixture.Wait(6 * timeout)
			want := 0
			if namesakes {
				want = 1
			}
			for name, l := range map[string]*lines{"first": &a, "second": &b} {
				if got := l.count("two live processes have the same name"); min(got, 1) != want {
					t.Errorf("namesakes %v: the %s got %d warnings, want %d or more", namesakes, name, got, want)
				}
			}
		})
	}
}

// deaf is a coordinator that records heartbeats, and whose answers are lost while silent.
type deaf struct {
	cluster.Coordinator
	silent atomic.Bool
}

func (d *deaf) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	snap, err := d.Coordinator.Heartbeat(ctx, b)
	if d.silent.Load() {
		return cluster.Snapshot{}, errors.New("no answer")
	}
	return snap, err
}

// A node whose answers are lost begins several sessions before it gets one. It does not take
// its own sessions for those of another process.
func TestOwnSessionsAreNoNamesake(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		c := &deaf{Coordinator: clustertest.NewMemory()}
		var log lines
		join(t, c, "a", log.to)
		for range 4 {
			c.silent.Store(true)
			fixture.Wait(4 * timeout)
			c.silent.Store(false)
			fixture.Wait(timeout / 2)
		}
		if got := log.count("two live processes have the same name"); got != 0 {
			t.Errorf("got %d warnings, want none", got)
		}
	})
}

// Two live processes with the same name replace each other's sessions, so neither leads. The
// first stops when it finds its record replaced, at its next heartbeat at the latest.
func TestNamesakesDoNotLead(t *testing.T) {
	alone := func(t *testing.T, open func() cluster.Coordinator) {
		first, b := join(t, open(), "same"), join(t, open(), "b")
		fixture.Wait(2 * settled)
		if leader(first) != "same" {
			t.Fatalf("%q leads, want the first", leader(first))
		}
		second := join(t, open(), "same")
		fixture.Wait(2 * timeout / 5) // a heartbeat
		for range 60 {
			fixture.Wait(time.Second)
			for what, n := range map[string]*cluster.Node{"first": first, "second": second} {
				if m, ok := n.Leader(); ok && m.Same(n.Self()) {
					t.Fatalf("the %s believes that it leads, and b that %q does", what, leader(b))
				}
			}
		}
		if leader(b) != "b" {
			t.Errorf("%q leads, want b", leader(b))
		}
	}
	t.Run("memory", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			c := clustertest.NewMemory()
			alone(t, func() cluster.Coordinator { return c })
		})
	})
	t.Run("table", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			tab := newTable(t, 0)
			alone(t, func() cluster.Coordinator { return dynamocoordinator.New(tab.Client("table"), tab.Name) })
		})
	})
}

// An outage is logged with one line when it begins, one line per minute while it lasts,
// and one line when it is over.
func TestAnOutageIsFewLines(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		var log lines
		net := &network{Coordinator: clustertest.NewMemory()}
		join(t, net, "a", log.to)
		net.set(true, nil)
		fixture.Wait(5 * time.Minute)
		net.set(false, nil)
		fixture.Wait(settled)
		if failed, again := log.count("cluster heartbeat failed"), log.count("cluster heartbeat succeeds again"); failed < 5 || failed > 6 || again != 1 {
			t.Errorf("got %d lines of failures and %d of success, want 5 or 6 and 1: %s", failed, again, log.text.String())
		}
	})
}

// Start whose context has no deadline logs what it waits for, such as a lease in the table
// of the coordinator, when it first fails and then once per minute.
func TestStartSaysWhatItWaitsFor(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		leases, members := newTable(t, 4), newTable(t, 4)
		agent := fixture.Start(t, lease.Config{Store: leases.Store("a"), Pool: "orders", Logger: silent})
		var log lines
		ended := make(chan error, 1)
		go func() {
			cfg := cluster.Config{Name: "a", Agent: agent, Coordinator: dynamocoordinator.New(members.Client("a"), members.Name)}
			log.to(&cfg)
			_, err := cluster.Start(t.Context(), cfg)
			ended <- err
		}()
		fixture.Wait(5*time.Minute + 30*time.Second)
		if got := log.count("give the coordinator the table of the lease"); got < 5 || got > 6 {
			t.Errorf("after five minutes: got %d lines with the remedy, want 5 or 6: %s", got, log.text.String())
		}
		if err := agent.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, cluster.ErrLease) {
			t.Errorf("after the agent was closed: got %v, want ErrLease", err)
		}
	})
}

// If the configuration of a node with a lease is impossible, Start returns an error that
// names the problem: either the cluster does not have the name of the agent's pool, so
// that no other node would see the member, or the name of the node does not fit into the
// metadata beside the agent's entries. Neither error is ErrLease.
func TestStartBesideALease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 4)
		client := tab.Client("a")
		a := fixture.Start(t, lease.Config{
			Store: lease.NewDynamoDB(client, tab.Name), Pool: "orders", Logger: silent, Metadata: map[string]string{"x": strings.Repeat("x", 440)},
		})
		for want, cfg := range map[string]cluster.Config{
			`Cluster "stock" with an agent of the pool "orders"`: {Cluster: "stock", Name: "a"},
			"do not fit with the agent's":                        {Name: strings.Repeat("n", 100)},
		} {
			cfg.Agent, cfg.Coordinator, cfg.Logger = a, dynamocoordinator.New(client, tab.Name), silent
			_, err := cluster.Start(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, cluster.ErrLease) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	})
}
