package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// With a lease, the renewal is the heartbeat. A member that is not the oldest writes
// nothing else, and reads one item of the digest at each heartbeat.
func TestHeartbeatIsTheRenewal(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		var nodes []*cluster.Node
		for _, name := range []string{"a", "b", "c"} {
			_, n := tab.leased(t, name)
			nodes = append(nodes, n)
			fixture.Wait(time.Second)
		}
		fixture.Wait(2 * settled)
		for _, n := range nodes {
			if names(n.State()) != "a b c" || leader(n) != "a" {
				t.Errorf("%s sees %q led by %s, want a b c and leader a", n.Self().Name, names(n.State()), leader(n))
			}
		}
		m, _ := nodes[0].State().Member(nodes[2].Self().SessionID)
		if l := nodes[2].Self(); m.NodeID != l.NodeID || m.NodeID < 0 || m.Version != 1 || time.Since(m.Heartbeat) > 2*timeout {
			t.Errorf("got %+v, want the lease's node ID and version of %+v", m, l)
		}
		for _, call := range []string{"UpdateItem", "GetItem", "Query"} {
			tab.Count("c " + call)
		}
		began := renewals(t, tab, nodes[2])
		fixture.Wait(time.Minute)
		renewed := int(renewals(t, tab, nodes[2]) - began)
		writes, reads, queries := tab.Count("c UpdateItem"), tab.Count("c GetItem"), tab.Count("c Query")
		// Every second time-out, c also reads the leader's own item.
		if renewed < 10 || writes != renewed || reads < renewed || reads > renewed+3 || queries != 0 {
			t.Errorf("in a minute %d renewals, %d writes, %d reads of one item, %d queries", renewed, writes, reads, queries)
		}
	})
}

// renewals returns how many renewals a node's lease has had.
func renewals(t *testing.T, tab table, n *cluster.Node) int64 {
	t.Helper()
	l, err := lease.NewDynamoDB(tab.Client(""), tab.Name).Get(t.Context(), "orders", n.Self().NodeID)
	if err != nil || l == nil {
		t.Fatal(l, err)
	}
	return l.Renewal
}

// A node whose listener fails leaves the cluster. Its lease continues, and still makes
// IDs.
func TestFatalListenerMarksTheLease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		agent, b := tab.leased(t, "b", func(c *cluster.Config) {
			c.Listeners = []cluster.Listener{func(_ context.Context, e cluster.Event) error {
				if e.State.Len() > 2 {
					return errors.New("no disk")
				}
				return nil
			}}
		})
		fixture.Wait(settled)
		if names(a.State()) != "a b" {
			t.Fatalf("a sees %q, want a b", names(a.State()))
		}
		_, c := tab.leased(t, "c")
		<-b.Done()
		fixture.Wait(settled) // for the mark, the next write of the digest and the next heartbeat
		if names(a.State()) != "a c" || names(c.State()) != "a c" {
			t.Errorf("a sees %q, c %q, want a c", names(a.State()), names(c.State()))
		}
		ids, err := snowflake.New(agent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ids.Next(); err != nil {
			t.Errorf("got %v, want an ID", err)
		}
		// Another node may take part with the same agent.
		join(t, dynamocoordinator.New(tab.Client("b"), tab.Name), "b", func(c *cluster.Config) { c.Agent = agent })
		fixture.Wait(settled)
		if names(a.State()) != "a c b" {
			t.Errorf("a sees %q, want a c b", names(a.State()))
		}
	})
}

// After an outage that was longer than the time-out, the renewal that resumes the lease
// writes the new session into the lease's metadata. The lease's holder stays the same.
func TestRotationWithALease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		agent, b := tab.leased(t, "b")
		fixture.Wait(settled)
		before, session := mustLease(t, agent), b.Self().SessionID
		tab.SetAway("b", true)
		fixture.Wait(2 * timeout)
		if names(a.State()) != "a" {
			t.Errorf("a sees %q, want a", names(a.State()))
		}
		tab.SetAway("b", false)
		<-agent.Renewed()
		after := mustLease(t, agent)
		if after.Holder != before.Holder || after.Version != before.Version || after.Metadata["session_id"] == session || after.Metadata["session_id"] != b.Self().SessionID {
			t.Errorf("resumed %+v, was %+v with session %s, b is %+v", after, before, session, b.Self())
		}
		fixture.Wait(settled)
		if !a.State().Equal(b.State()) || a.State().Len() != 2 {
			t.Errorf("a sees %q, b %q, want both in each", names(a.State()), names(b.State()))
		}
	})
}

func mustLease(t *testing.T, a *lease.Agent) lease.Lease {
	t.Helper()
	l, err := a.Lease()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The other members drop a member that releases its lease at their next heartbeat. A
// member that loses its lease is down.
func TestEndOfTheLease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		given, b := tab.leased(t, "b")
		freed, c := tab.leased(t, "c")
		fixture.Wait(settled)
		if err := given.Close(); err != nil {
			t.Fatal(err)
		}
		l := mustLease(t, freed)
		store := lease.NewDynamoDB(tab.Client(""), tab.Name)
		if _, err := store.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Version: l.Version}); err != nil {
			t.Fatal(err)
		}
		<-b.Done()
		<-c.Done()
		if !errors.Is(b.Err(), cluster.ErrLease) || !errors.Is(b.Err(), lease.ErrClosed) || !errors.Is(c.Err(), lease.ErrLost) {
			t.Errorf("got %v and %v, want ErrLease with ErrClosed, and ErrLost", b.Err(), c.Err())
		}
		fixture.Wait(timeout / 2)
		if names(a.State()) != "a" {
			t.Errorf("a sees %q, want a", names(a.State()))
		}
	})
}

// A leader whose node ID was freed by force, and that waits for another one, no longer
// believes that it leads once its agent knows of the loss.
func TestLeaderWithoutALease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 2)
		agent := fixture.Start(t, lease.Config{Store: tab.Store("a"), Pool: "orders", Logger: silent, OnLost: lease.Reacquire})
		a := join(t, dynamocoordinator.New(tab.Client("a"), tab.Name), "a", func(c *cluster.Config) { c.Agent, c.Cluster = agent, "" })
		fixture.Wait(time.Second)
		tab.leased(t, "b")
		fixture.Wait(2 * settled)
		if leader(a) != "a" {
			t.Fatalf("got leader %q, want a", leader(a))
		}
		tab.free(t, mustLease(t, agent))
		lost, led := 0, 0
		for range 10 * 30 {
			if _, err := agent.Lease(); errors.Is(err, lease.ErrLost) {
				lost++
				if leader(a) == "a" {
					led++
				}
			}
			fixture.Wait(100 * time.Millisecond)
		}
		if lost == 0 || led > 0 {
			t.Errorf("got %d tenths of a second without a lease, and a as its own leader in %d of them; want some, and none", lost, led)
		}
	})
}

// Start does not return a node whose lease is in another table than that of the coordinator,
// which no other node would see, and which would lead. The error names the remedy.
func TestLeaseInAnotherTable(t *testing.T) {
	for name, size := range map[string]int{"with the pool": 8, "without the pool": 0} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				leases, members := newTable(t, 8), newTable(t, size)
				agent := fixture.Start(t, lease.Config{Store: leases.Store("a"), Pool: "orders", Logger: silent})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n, err := cluster.Start(ctx, cluster.Config{Name: "a", Agent: agent, Coordinator: dynamocoordinator.New(members.Client("a"), members.Name), Logger: silent})
				if n != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "give the coordinator the table of the lease") {
					t.Errorf("got the node %v and the error %v, want DeadlineExceeded with the remedy", n, err)
				}
			})
		})
	}
}

// When the member that writes the digest dies, the other members read the table
// themselves and drop that member. The next oldest member then writes the digest.
func TestStaleDigest(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		fixture.Wait(time.Second)
		var rest []*cluster.Node
		for _, name := range []string{"b", "c", "d"} {
			_, n := tab.leased(t, name)
			rest = append(rest, n)
			fixture.Wait(time.Second)
		}
		fixture.Wait(2 * settled)
		tab.Count("d Query")
		fixture.Wait(time.Minute)
		if n := tab.Count("d Query"); n != 0 {
			t.Errorf("got %d queries by d despite a digest, want none", n)
		}
		tab.SetAway("a", true)
		fixture.Wait(2*timeout + settled)
		for _, n := range rest {
			if names(n.State()) != "b c d" || leader(n) != "b" {
				t.Errorf("%s sees %q led by %s, want b c d and leader b", n.Self().Name, names(n.State()), leader(n))
			}
		}
		fixture.Wait(settled)
		tab.Count("d Query")
		fixture.Wait(time.Minute)
		if n := tab.Count("d Query"); n != 0 {
			t.Errorf("%d queries by d despite a new digest", n)
		}
		tab.SetAway("a", false)
		fixture.Wait(2 * settled)
		if names(a.State()) != "b c d a" || !a.State().Equal(rest[2].State()) {
			t.Errorf("a sees %q, d %q, want b c d a in each", names(a.State()), names(rest[2].State()))
		}
	})
}

// Members with leases and members without leases can be in the same cluster.
func TestNodesWithoutLeases(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		fixture.Wait(time.Second)
		b := join(t, dynamocoordinator.New(tab.Client("b"), tab.Name), "b", func(c *cluster.Config) { c.Metadata = map[string]string{"zone": "1"} })
		fixture.Wait(2 * settled)
		m, ok := a.State().Member(b.Self().SessionID)
		if !a.State().Equal(b.State()) || !ok || m.NodeID != cluster.NoNodeID || m.Metadata["zone"] != "1" {
			t.Errorf("a sees %q, b %q; b is %+v, want it without a node ID, in zone 1", names(a.State()), names(b.State()), m)
		}
	})
}

// A node waits until every live member knows its version, including a member that saw the
// node's predecessor on the same node ID.
func TestWaitKnown(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 2)
		publish := func(c *cluster.Config) { c.PublishKnown = true }
		_, a := tab.leased(t, "a", publish)
		agent, _ := tab.leased(t, "b", publish)
		fixture.Wait(settled)
		number := agent.NodeID()
		tab.SetAway("b", true) // an unclean end
		fixture.Wait(settled)
		second, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(tab.Client("b2"), tab.Name), Pool: "orders", Logger: silent, Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		n := join(t, dynamocoordinator.New(tab.Client("b2"), tab.Name), "b", func(c *cluster.Config) { c.Agent, c.PublishKnown = second, true })
		if second.NodeID() != number || n.Self().Version != 2 {
			t.Fatalf("got %+v, want version 2 of the same node ID", n.Self())
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.WaitKnown(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "version 2 is not known to a") {
			t.Errorf("no member can know it yet: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*settled)
		defer cancel()
		if err := n.WaitKnown(ctx); err != nil {
			t.Error(err)
		}
		// The known versions are written only when they change.
		tab.Count("a UpdateItem")
		_ = a
		fixture.Wait(time.Minute)
		if writes := tab.Count("a UpdateItem"); writes > 2*14 {
			t.Errorf("%d writes in a minute by the oldest, which renews and writes the digest 12 times", writes)
		}
	})
}

// If an agent claims another node ID after a loss, its node begins a new incarnation.
func TestAnotherNodeID(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		_, a := tab.leased(t, "a")
		agent, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(tab.Client("b"), tab.Name), Pool: "orders", Logger: silent, OnLost: lease.Reacquire})
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		b := join(t, dynamocoordinator.New(tab.Client("b"), tab.Name), "b", func(c *cluster.Config) { c.Agent = agent })
		fixture.Wait(settled)
		before := b.Self()
		store := lease.NewDynamoDB(tab.Client(""), tab.Name)
		if _, err := store.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: before.NodeID}, Version: before.Version}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(2 * settled)
		after := b.Self()
		if after.NodeID == before.NodeID || after.SessionID == before.SessionID || names(a.State()) != "a b" || !a.State().Equal(b.State()) {
			t.Errorf("was %+v, is %+v, want another node ID and session; a sees %q", before, after, names(a.State()))
		}
	})
}

// The claim of another node ID after a loss does not bring back the session that others
// dropped when they read that the previous node ID was free.
func TestDroppedSessionIsNotInAnotherClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		cfg := fixture.Config(s)
		cfg.OnLost = lease.Reacquire
		agent := fixture.Start(t, cfg)
		a := join(t, clustertest.NewMemory(), "a", func(c *cluster.Config) { c.Agent, c.Cluster = agent, "" })
		fixture.Wait(settled)
		session := a.Self().SessionID
		if _, err := leasepool.Open(s, "orders").ForceRelease(t.Context(), agent.NodeID(), 1); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(timeout)
		claims := fixture.WritesOf[protocol.Claim](s)
		if len(claims) < 2 {
			t.Fatalf("got %d claims, want another one", len(claims))
		}
		for _, c := range claims[1:] {
			if got := c.Metadata["session_id"]; got == "" || got == session {
				t.Errorf("got a claim with the session %q, want one that is not %q", got, session)
			}
		}
		if got, want := a.Self().SessionID, claims[len(claims)-1].Metadata["session_id"]; got != want {
			t.Errorf("after the claim: got the session %q, want %q, which the claim has", got, want)
		}
	})
}

// The session in the claim of another node ID stays the session of the node. So other
// members see one new session after a loss, even if the next renewal takes a while.
func TestOneSessionAfterALoss(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 8)
		var r recorder
		tab.leased(t, "a", func(c *cluster.Config) { c.Listeners = []cluster.Listener{r.listen} })
		client := &interrupted{Client: tab.Client("b")}
		agent := fixture.Start(t, lease.Config{Store: lease.NewDynamoDB(client, tab.Name), Pool: "orders", Logger: silent, OnLost: lease.Reacquire})
		b := join(t, dynamocoordinator.New(tab.Client("b"), tab.Name), "b", func(c *cluster.Config) { c.Agent, c.Cluster = agent, "" })
		fixture.Wait(settled)
		before := b.Self().SessionID
		tab.free(t, mustLease(t, agent))
		seen := len(r.events())
		client.arm() // for the claim
		fixture.Wait(2 * settled)
		sessions := map[string]bool{}
		for _, e := range r.events()[seen:] {
			for m := range e.State.Members() {
				if m.Name == "b" {
					sessions[m.SessionID] = true
				}
			}
		}
		if after := b.Self().SessionID; after == before || len(sessions) != 1 || !sessions[after] {
			t.Errorf("got the sessions %v of b, which was %s and is %s, want only a new one", sessions, before, after)
		}
	})
}

// interrupted is a client that, once it is armed, fails all writes for a while after the
// next one.
type interrupted struct {
	*dynamodb.Client
	mu    sync.Mutex
	armed bool
	until time.Time
}

func (i *interrupted) arm() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.armed = true
}

func (i *interrupted) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Now().Before(i.until) {
		return nil, errors.New("throttled")
	}
	out, err := i.Client.UpdateItem(ctx, in, o...)
	if err == nil && i.armed {
		i.armed, i.until = false, time.Now().Add(7*time.Second)
	}
	return out, err
}
