package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

// backends runs a test on each backend, with leases and without.
func backends(t *testing.T, test func(t *testing.T, start func(name string) *cluster.Node)) {
	for name, open := range map[string]func(t *testing.T) func(name string) *cluster.Node{
		"memory": func(t *testing.T) func(string) *cluster.Node {
			c := clustertest.NewMemory()
			return func(name string) *cluster.Node { return join(t, c, name) }
		},
		"table": func(t *testing.T) func(string) *cluster.Node {
			tab := newTable(t, 0)
			return func(name string) *cluster.Node {
				return join(t, dynamocoordinator.New(tab.Client(name), tab.Name), name)
			}
		},
		"leases": func(t *testing.T) func(string) *cluster.Node {
			tab := newTable(t, 32)
			return func(name string) *cluster.Node {
				_, n := tab.leased(t, name)
				return n
			}
		},
	} {
		t.Run(name, func(t *testing.T) { fixture.Virtual(t, func(t *testing.T) { test(t, open(t)) }) })
	}
}

// When Start returns, the node is recorded, so every node that reads later sees it. So if
// eight nodes start at once, none of them believes that it leads during the first
// time-out, and exactly one does afterwards.
func TestRecordedBeforeItLooks(t *testing.T) {
	backends(t, func(t *testing.T, start func(name string) *cluster.Node) {
		began := time.Now()
		first := start("first")
		if late := start("late"); late.State().Len() != 2 || names(late.State()) != "first late" {
			t.Errorf("late sees %q, want first and itself", names(late.State()))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("two starts took %v, want less than a heartbeat", took)
		}
		nodes := []*cluster.Node{first}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 7 {
			wg.Go(func() {
				n := start(fmt.Sprint("node ", i))
				mu.Lock()
				defer mu.Unlock()
				nodes = append(nodes, n)
			})
		}
		wg.Wait()
		for range 10 * 60 {
			var leaders []string
			for _, n := range nodes {
				if m, ok := n.Leader(); ok && m.Same(n.Self()) {
					leaders = append(leaders, m.Name)
				}
			}
			since := time.Since(began)
			if len(leaders) > 1 || len(leaders) > 0 && since < timeout || len(leaders) == 0 && since > settled+time.Second {
				t.Fatalf("%v after the start %q believe that they lead", since, leaders)
			}
			fixture.Wait(100 * time.Millisecond)
		}
	})
}

// frozen delays heartbeats, as in a process that was stopped: the store does the request
// at the beginning or at the end of the delay, the answer comes at the end, and the end
// of the context does not shorten the delay.
type frozen struct {
	cluster.Coordinator
	mu     sync.Mutex
	before time.Duration
	after  time.Duration
	began  chan struct{} // closed by the next heartbeat
}

func (f *frozen) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	f.mu.Lock()
	before, after := f.before, f.after
	f.before, f.after = 0, 0
	if f.began != nil && after > 0 {
		close(f.began)
		f.began = nil
	}
	f.mu.Unlock()
	time.Sleep(before) // virtual
	snap, err := f.Coordinator.Heartbeat(context.WithoutCancel(ctx), b)
	time.Sleep(after) // virtual
	return snap, err
}

// A process that was stopped for longer than the time-out, before or after its
// heartbeat arrived, comes back with a new session, and never leads with the old one.
func TestStoppedProcessComesBackAsAnother(t *testing.T) {
	for name, set := range map[string]func(*frozen){
		"before the heartbeat arrived": func(f *frozen) { f.before = 4 * timeout },
		"after it":                     func(f *frozen) { f.after = 4 * timeout },
	} {
		t.Run(name, func(t *testing.T) {
			backendsFor(t, func(t *testing.T, shared cluster.Coordinator) {
				link := &frozen{Coordinator: shared}
				a := join(t, link, "a")
				fixture.Wait(time.Second)
				b := join(t, shared, "b")
				fixture.Wait(2 * settled)
				before := a.Self().SessionID
				if leader(a) != "a" || leader(b) != "a" {
					t.Fatalf("a reports %s as leader, b reports %s, want leader a", leader(a), leader(b))
				}
				link.mu.Lock()
				set(link)
				link.mu.Unlock()
				fixture.Wait(2*timeout + timeout/2) // a was stopped at its next heartbeat, and b has dropped it
				for range 10 * 75 {
					if m, ok := a.Leader(); ok && m.SessionID == before {
						t.Fatalf("a leads as the session that was dropped")
					}
					if _, there := b.State().Member(before); there {
						t.Fatalf("b sees the dropped session: %q", names(b.State()))
					}
					fixture.Wait(100 * time.Millisecond)
				}
				if a.Self().SessionID == before || leader(b) != "b" || leader(a) != "b" || names(b.State()) != "b a" {
					t.Errorf("a is %+v, b sees %q led by %s; want a new session of a and b as leader", a.Self(), names(b.State()), leader(b))
				}
			})
		})
	}
}

// Silence counts from the time when a heartbeat was sent, not from its answer.
func TestSilenceCountsFromTheSending(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		away := &network{Coordinator: clustertest.NewMemory()}
		link := &frozen{Coordinator: away}
		a := join(t, link, "a")
		fixture.Wait(2 * settled)
		link.mu.Lock()
		began := make(chan struct{})
		link.after, link.began = 10*time.Second, began
		link.mu.Unlock()
		<-began
		fixture.Wait(10*time.Second - time.Millisecond)
		away.set(true, nil)                                 // the answer that is on its way still comes, and no later one
		fixture.Wait(timeout - timeout/10 - 10*time.Second) // 13.5 s after the sending
		if leader(a) != "a" {
			t.Errorf("within the time-out %q leads, want a", leader(a))
		}
		fixture.Wait(time.Second)
		if leader(a) != "" {
			t.Errorf("%q leads 14.5 s after its last heartbeat was sent", leader(a))
		}
	})
}

// backendsFor runs a test on the coordinators that record heartbeats.
func backendsFor(t *testing.T, test func(t *testing.T, c cluster.Coordinator)) {
	t.Run("memory", func(t *testing.T) { fixture.Virtual(t, func(t *testing.T) { test(t, clustertest.NewMemory()) }) })
	t.Run("table", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			tab := newTable(t, 0)
			test(t, dynamocoordinator.New(tab.Client("table"), tab.Name))
		})
	})
}

// With a lease, silence counts from the time when the last confirmed renewal was sent,
// minus the Guard. A renewal whose answer came late does not extend a dropped session.
func TestLateRenewalEndsNoSilence(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		fixture.Wait(time.Second)
		_, b := tab.leased(t, "b")
		fixture.Wait(2 * settled)
		before := a.Self().SessionID
		tab.SetAway("a", true) // renewals are sent, and no answer comes
		fixture.Wait(timeout)
		if m, ok := a.Leader(); ok && m.Same(a.Self()) {
			t.Errorf("a leads %v after its last renewal", timeout)
		}
		tab.SetAway("a", false)
		fixture.Wait(settled)
		if a.Self().SessionID == before || leader(b) != "b" || names(b.State()) != "b a" {
			t.Errorf("a is still %s, b sees %q led by %s; want a new session of a and b as leader", before, names(b.State()), leader(b))
		}
	})
}

// The others see that a node whose listener failed has ended, even if the agent's task
// and metadata use all of the 512 bytes.
func TestFailedNodeIsGoneWhateverItsMetadata(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		client := tab.Client("b")
		// The node adds two metadata entries: its name and its session.
		room := 512 - len("task") - len("node"+"b"+"session_id") - 36
		agent, err := lease.Start(t.Context(), lease.Config{
			Store: lease.NewDynamoDB(client, tab.Name), Pool: "orders", Task: "task", Logger: silent,
			Metadata: map[string]string{"x": strings.Repeat("y", room-1)},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		fail := make(chan struct{})
		b := join(t, dynamocoordinator.New(client, tab.Name), "b", func(c *cluster.Config) {
			c.Agent = agent
			c.Listeners = []cluster.Listener{func(context.Context, cluster.Event) error { <-fail; return errors.New("no disk") }}
		})
		fixture.Wait(settled)
		if names(a.State()) != "a b" {
			t.Fatalf("a sees %q, want a b", names(a.State()))
		}
		close(fail)
		<-b.Done()
		fixture.Wait(10 * time.Millisecond) // the node renews at once
		if l, err := lease.NewDynamoDB(client, tab.Name).Get(t.Context(), "orders", agent.NodeID()); err != nil || l.Metadata["session_id"] != "" {
			t.Errorf("the lease has %v, %v, want no session", l.Metadata, err)
		}
		fixture.Wait(timeout / 2) // a heartbeat
		if names(a.State()) != "a" {
			t.Errorf("a sees %q, want only itself", names(a.State()))
		}
	})
}

// dropping is a backend whose heartbeats wait for a channel, once it is set, and are then
// refused.
type dropping struct {
	*clustertest.Memory
	mu    sync.Mutex
	until <-chan struct{}
	began chan struct{} // closed by the first heartbeat that waits
}

func (d *dropping) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	d.mu.Lock()
	until := d.until
	d.mu.Unlock()
	if until == nil {
		return d.Memory.Heartbeat(ctx, b)
	}
	close(d.began)
	<-until
	return cluster.Snapshot{}, cluster.ErrDropped
}

// If the heartbeat of a session is refused just after the node was closed, the lease does
// not get a session again.
func TestDroppedWhileItCloses(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 4)
		d := &dropping{Memory: clustertest.NewMemory(), began: make(chan struct{})}
		agent, n := tab.leased(t, "a", func(c *cluster.Config) { c.Coordinator = d })
		fixture.Wait(settled)
		d.mu.Lock()
		d.until = n.Done()
		d.mu.Unlock()
		<-d.began
		_ = n.Close()
		fixture.Wait(2 * timeout) // after some renewals
		if l := mustLease(t, agent); l.Metadata["node"] != "" || l.Metadata["session_id"] != "" {
			t.Errorf("got a lease with the metadata %v, want none of a node", l.Metadata)
		}
	})
}

// The context of a listener ends when another listener fails, and when the lease ends, so
// that a job that runs in a listener ends as well.
func TestListenersEndWithTheNode(t *testing.T) {
	fail, ended := make(chan struct{}), make(chan string, 2)
	leads := func(ctx context.Context, _ cluster.Event) error { <-ctx.Done(); ended <- "job"; return nil }
	t.Run("a listener fails", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			fail, ended = make(chan struct{}), make(chan string, 2)
			n := join(t, clustertest.NewMemory(), "a", func(c *cluster.Config) {
				c.Listeners = []cluster.Listener{leads, func(context.Context, cluster.Event) error { <-fail; return errors.New("fatal") }}
			})
			fixture.Wait(0) // both are called
			close(fail)
			within(t, n.Done())
			within(t, ended)
		})
	})
	t.Run("the lease is lost", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			ended = make(chan string, 2)
			tab := newTable(t, 1)
			agent, n := tab.leased(t, "a", func(c *cluster.Config) { c.Listeners = []cluster.Listener{leads} })
			fixture.Wait(0)
			tab.free(t, mustLease(t, agent))
			within(t, n.Done())
			within(t, ended)
		})
	})
}

// A listener that ends its goroutine is as fatal as a listener that panics.
func TestGoexitInAListener(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		n := join(t, clustertest.NewMemory(), "a", func(c *cluster.Config) {
			c.Listeners = []cluster.Listener{func(context.Context, cluster.Event) error { runtime.Goexit(); return nil }}
		})
		within(t, n.Done())
		if err := n.Err(); !errors.Is(err, cluster.ErrListener) || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("got %v, want %v with the reason", err, cluster.ErrListener)
		}
	})
}

// A failed read is tried again before the next renewal.
func TestFailedReadIsTriedAgain(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		agent, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(tab.Client("a"), tab.Name), Pool: "orders", Logger: silent, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		link := &network{Coordinator: dynamocoordinator.New(tab.Client("a"), tab.Name)}
		n := join(t, link, "a", func(c *cluster.Config) { c.Agent, c.Cluster = agent, "" })
		link.set(true, nil)
		<-agent.Renewed()
		fixture.Wait(200 * time.Millisecond) // a few attempts: the next one is less than a second away
		link.set(false, nil)
		_, b := tab.leased(t, "b")
		fixture.Wait(2 * time.Second) // the next renewal is 20 s away
		if names(n.State()) != "a b" {
			t.Errorf("a sees %q, want a and %s", names(n.State()), b.Self().Name)
		}
	})
}

// While the backend answers with errors, a node sends at most about twice as many
// requests as usual.
func TestRetriesBackOff(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		link := &network{Coordinator: clustertest.NewMemory()}
		join(t, link, "a")
		link.set(true, nil)
		fixture.Wait(time.Minute)
		link.mu.Lock()
		before := link.seen
		link.mu.Unlock()
		fixture.Wait(10 * time.Minute)
		link.mu.Lock()
		defer link.mu.Unlock()
		if got := link.seen - before; got > 320 || got < 120 {
			t.Errorf("%d heartbeats in ten minutes, want about 240: twice 120", got)
		}
	})
}

// A node's metadata can be changed, with a lease and without.
func TestSetMetadata(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		b := join(t, dynamocoordinator.New(tab.Client("b"), tab.Name), "b", func(c *cluster.Config) { c.Metadata = map[string]string{"zone": "1", "old": "x"} })
		for _, n := range []*cluster.Node{a, b} {
			if err := n.SetMetadata(map[string]string{"zone": "2", "old": ""}); err != nil {
				t.Fatal(err)
			}
			if err := n.SetMetadata(map[string]string{"x": strings.Repeat("y", 600)}); err == nil {
				t.Error("600 bytes were accepted")
			}
		}
		if err := a.SetMetadata(map[string]string{"session_id": "mine"}); err == nil {
			t.Error("the session changed")
		}
		session := a.Self().SessionID
		fixture.Wait(2 * settled)
		for _, n := range []*cluster.Node{a, b} {
			for m := range n.State().Members() {
				if len(m.Metadata) != 1 || m.Metadata["zone"] != "2" {
					t.Errorf("%s sees %v of %s, want zone 2", n.Self().Name, m.Metadata, m.Name)
				}
			}
		}
		if a.Self().SessionID != session {
			t.Error("a change of metadata began a new session")
		}
	})
}

// If two processes have the same name, both log a warning.
func TestTwoProcessesWithOneName(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		var log buffer
		_, a := tab.leased(t, "same", func(c *cluster.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		fixture.Wait(settled)
		tab.leased(t, "same")
		fixture.Wait(timeout)
		if strings.Contains(log.String(), "the same name") {
			t.Error("warned of a possible predecessor")
		}
		fixture.Wait(3 * timeout)
		if !strings.Contains(log.String(), "the same name") || a.Err() != nil {
			t.Errorf("want a warning, got %s, %v", log.String(), a.Err())
		}
	})
}

// buffer is a writer for several goroutines.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// within waits until a channel yields a value or is closed, for a few heartbeats at most.
func within[T any](t *testing.T, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(settled):
		t.Fatal("the heartbeat did not arrive")
	}
}
