package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

func publish(c *cluster.Config) { c.PublishKnown = true }

// secondLife starts another process, which claims the node ID of "b", whose process has
// ended, and takes part as "b".
func (tab table) secondLife(t *testing.T, change ...func(*cluster.Config)) *cluster.Node {
	t.Helper()
	agent, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(tab.Client("b2"), tab.Name), Pool: "orders", Logger: silent, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	return join(t, dynamocoordinator.New(tab.Client("b2"), tab.Name), "b", append([]func(*cluster.Config){func(c *cluster.Config) { c.Agent = agent }, publish}, change...)...)
}

// WaitKnown returns at once if the node ID was never held before, or if its last holder
// released it.
func TestWaitKnownIsFreeAfterACleanEnd(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 2)
		tab.leased(t, "a") // does not publish
		agent, b := tab.leased(t, "b", publish)
		tab.Count("b Query")
		if err := b.WaitKnown(t.Context()); err != nil || tab.Count("b Query") > 0 {
			t.Errorf("on a new node ID WaitKnown sent requests, or returned %v", err)
		}
		_ = b.Close()
		if err := agent.Close(); err != nil {
			t.Fatal(err)
		}
		n := tab.secondLife(t)
		if n.Self().Version != 2 {
			t.Fatalf("got %+v, want version 2", n.Self())
		}
		tab.Count("b2 Query")
		if err := n.WaitKnown(t.Context()); err != nil || tab.Count("b2 Query") > 0 {
			t.Errorf("after a clean end WaitKnown sent requests, or returned %v", err)
		}
	})
}

// A member that does not publish does not block WaitKnown on other members forever. The
// log names this member.
func TestWaitKnownGivesUp(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 2)
		tab.leased(t, "older release")
		tab.leased(t, "b", publish)
		fixture.Wait(settled)
		tab.SetAway("b", true)
		fixture.Wait(settled)
		var log buffer
		n := tab.secondLife(t, func(c *cluster.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		began := time.Now()
		if err := n.WaitKnown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 3*timeout || took > 4*timeout || !strings.Contains(log.String(), "older release") {
			t.Errorf("ready after %v, want after three time-outs with a name in the log: %s", took, log.String())
		}
	})
}

// An application publishes the versions that it knows. They replace the versions that the
// node published before.
func TestPublish(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 2)
		_, a := tab.leased(t, "a")
		tab.leased(t, "b", publish)
		fixture.Wait(settled)
		tab.SetAway("b", true)
		fixture.Wait(settled)
		n := tab.secondLife(t)
		for version := range int64(2) {
			if err := a.Publish(t.Context(), cluster.Versions{n.Self().Key(): version}); err != nil {
				t.Fatal(err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), settled)
		defer cancel()
		if err := n.WaitKnown(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "known to a") {
			t.Errorf("a knows version 1: got %v, want a deadline that names a", err)
		}
		if err := a.Publish(t.Context(), cluster.Versions{n.Self().Key(): 2}); err != nil {
			t.Fatal(err)
		}
		if err := n.WaitKnown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The publications of a second node with the same agent replace those of the first node,
// although the version of the lease is the same.
func TestSecondNodeOfAnAgentPublishes(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 2)
		agent, first := tab.leased(t, "a")
		for range 3 {
			if err := first.Publish(t.Context(), cluster.Versions{"7": 1}); err != nil {
				t.Fatal(err)
			}
		}
		_ = first.Close()
		fixture.Wait(time.Second)
		c := dynamocoordinator.New(tab.Client("a"), tab.Name)
		second := join(t, c, "a", func(c *cluster.Config) { c.Agent = agent })
		if err := second.Publish(t.Context(), cluster.Versions{"7": 2}); err != nil {
			t.Fatal(err)
		}
		if known, err := c.Known(t.Context(), "orders"); err != nil || known[second.Self().Key()]["7"] != 2 {
			t.Errorf("got the publications %v, %v; want that of the second node", known, err)
		}
	})
}

// A member that comes back after it was forgotten publishes again, although it knows the
// same versions as before.
func TestForgottenMemberPublishesAgain(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		m := clustertest.NewMemory()
		join(t, m, "a", publish)
		fixture.Wait(time.Second)
		link := &network{Coordinator: m}
		b := join(t, link, "b", publish)
		fixture.Wait(settled)
		link.set(true, nil)
		fixture.Wait(27 * time.Hour)
		if all, err := m.Known(t.Context(), "orders"); err != nil || all[b.Self().Key()] != nil {
			t.Fatalf("after 27 hours: got %v, %v, want nothing of b", all, err)
		}
		link.set(false, nil)
		fixture.Wait(2 * settled)
		if all, err := m.Known(t.Context(), "orders"); err != nil || all[b.Self().Key()] == nil {
			t.Errorf("after b came back: got %v, %v, want a publication of b", all, err)
		}
	})
}

// outdated answers some heartbeats with the result of an earlier one, like a digest that
// was written before its reader read the leases.
type outdated struct {
	cluster.Coordinator
	mu    sync.Mutex
	kept  *cluster.Snapshot
	serve bool
}

func (o *outdated) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	snap, err := o.Coordinator.Heartbeat(ctx, b)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.serve {
		return *o.kept, err
	}
	if o.kept == nil && err == nil && len(snap.Members) == 2 {
		o.kept = &snap
	}
	return snap, err
}

func (o *outdated) turnBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.serve = true
}

// Once WaitKnown has returned because a node has published that it knows a version, this
// node does not go back to an earlier version, even if it reads a digest that is older
// than its own read of the leases.
func TestKnownVersionsNeverGoBack(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 2)
		var old *outdated
		_, a := tab.leased(t, "a", publish, func(c *cluster.Config) {
			old = &outdated{Coordinator: c.Coordinator}
			c.Coordinator = old
		})
		tab.leased(t, "b", publish)
		fixture.Wait(settled)
		tab.SetAway("b", true)
		fixture.Wait(settled)
		n := tab.secondLife(t)
		if err := n.WaitKnown(t.Context()); err != nil {
			t.Fatal(err)
		}
		self := n.Self()
		if m, ok := a.State().Member(self.SessionID); !ok || m.Version != 2 {
			t.Fatalf("a was waited for and has %+v %v", m, ok)
		}
		old.turnBack()
		for range 10 {
			fixture.Wait(time.Second)
			for m := range a.State().Members() {
				if m.Key() == self.Key() && m.Version < self.Version {
					t.Fatalf("a believes that version %d is alive, though it was known to know %d", m.Version, self.Version)
				}
			}
		}
	})
}

// If an earlier holder of a member's node ID knew a version, this does not count for the
// member.
func TestWaitKnownAsksThePresentHolder(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 2)
		tab.leased(t, "a", publish)
		tab.leased(t, "b", publish)
		fixture.Wait(settled)
		tab.SetAway("b", true)
		fixture.Wait(settled)
		n := tab.secondLife(t)
		if err := n.WaitKnown(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Another process takes a's node ID, and has not published yet.
		tab.SetAway("a", true)
		fixture.Wait(2 * settled)
		if names(n.State()) != "b" {
			t.Fatalf("got members %q, want b", names(n.State()))
		}
		agent, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(tab.Client("a2"), tab.Name), Pool: "orders", Logger: silent, Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = agent.Close() })
		join(t, dynamocoordinator.New(tab.Client("a2"), tab.Name), "a", func(c *cluster.Config) { c.Agent = agent })
		fixture.Wait(settled)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.WaitKnown(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "known to a") {
			t.Errorf("only the earlier holder has published: got %v, want a deadline that names a", err)
		}
	})
}

// crowd is a backend that adds many members, none of which publishes.
type crowd struct {
	*clustertest.Memory
	members int
	asked   atomic.Int64 // calls of Known
}

func (c *crowd) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	snap, err := c.Memory.Heartbeat(ctx, b)
	for i := range c.members {
		name := fmt.Sprint("other ", i)
		snap.Members = append(snap.Members, cluster.Member{Cluster: b.Self.Cluster, Name: name, NodeID: cluster.NoNodeID, SessionID: "session of " + name, Version: 1})
	}
	return snap, err
}

func (c *crowd) Known(ctx context.Context, name string) (map[string]cluster.Versions, error) {
	c.asked.Add(1)
	return c.Memory.Known(ctx, name)
}

// In a large cluster, WaitKnown seldom reads the known versions. In a cluster with more
// than MaxKnown members, it never reads them. Even so, it returns after three time-outs.
func TestWaitKnownInALargeCluster(t *testing.T) {
	for members, most := range map[int]int64{1000: 4, 1024: 0} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				c := &crowd{Memory: clustertest.NewMemory(), members: members}
				_ = join(t, c, "b", publish).Close()
				var log buffer
				n := join(t, c, "b", publish, func(c *cluster.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				if n.Self().Version != 2 {
					t.Fatalf("got %+v, want version 2", n.Self())
				}
				began := time.Now()
				if err := n.WaitKnown(t.Context()); err != nil {
					t.Error(err)
				}
				want := "other 999"
				if most == 0 {
					want = "in clusters of up to 1024"
				}
				if took, asked := time.Since(began), c.asked.Load(); took < 3*timeout || took > 4*timeout || asked > most || asked == 0 && most > 0 || !strings.Contains(log.String(), want) {
					t.Errorf("ready after %v and %d requests, want after three time-outs and at most %d, with %q in the log: %.300s", took, asked, most, want, log.String())
				}
			})
		})
	}
}

// As soon as a node has ended, another node may take part with the same agent: the end of the
// first one leaves the second one's session in the lease.
func TestSecondNodeAfterTheEndOfTheFirst(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, b := tab.leased(t, "b")
		fail := make(chan struct{})
		agent, first := tab.leased(t, "a", func(c *cluster.Config) {
			c.Listeners = []cluster.Listener{func(context.Context, cluster.Event) error { <-fail; return errors.New("no disk") }}
		})
		began := make(chan struct{})
		set := siblings.BeforeResume
		defer func() { siblings.BeforeResume = set }()
		siblings.BeforeResume = func(a any, fn func()) {
			set(a, fn)
			switch {
			case a != any(agent):
			case fn != nil:
				close(began)
			default: // the first node ends
				select {
				case <-first.Done(): // so the second one may begin
					<-began
				default:
				}
			}
		}
		close(fail)
		<-first.Done()
		ctx, cancel := context.WithTimeout(t.Context(), settled)
		defer cancel()
		second, err := cluster.Start(ctx, cluster.Config{Name: "a", Agent: agent, Coordinator: dynamocoordinator.New(tab.Client("a"), tab.Name), Logger: silent})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		session := second.Self().SessionID
		fixture.Wait(settled)
		if _, there := b.State().Member(session); !there {
			t.Errorf("b sees %q, want the second node too, with its first session", names(b.State()))
		}
	})
}

// slow is a client whose writes take 10 ms.
type slow struct {
	lease.Client
	writes atomic.Int64
}

func (s *slow) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	fixture.Wait(10 * time.Millisecond)
	s.writes.Add(1)
	return s.Client.UpdateItem(ctx, in, o...)
}

// A session that something else removes from the lease causes no renewal after the other.
func TestRemovedSessionIsNoStormOfRenewals(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		client := &slow{Client: tab.Client("a")}
		agent, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(client, tab.Name), Pool: "orders", Logger: silent})
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		join(t, dynamocoordinator.New(tab.Client("a"), tab.Name), "a", func(c *cluster.Config) { c.Agent, c.Cluster = agent, "" })
		fixture.Wait(settled)
		if err := agent.SetMetadata(map[string]string{"session_id": ""}); err != nil {
			t.Fatal(err)
		}
		before := client.writes.Load()
		fixture.Wait(time.Minute)
		if writes := client.writes.Load() - before; writes > 20 {
			t.Errorf("got %d renewals in a minute, want about 12", writes)
		}
	})
}
