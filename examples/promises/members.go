package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

// join makes a process a member.
func (c *check) join(ctx context.Context, p *process, name string, change ...func(*cluster.Config)) (*cluster.Node, error) {
	cfg := cluster.Config{Name: name, Agent: p.agent, Coordinator: dynamocoordinator.New(p.client, c.table), Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	return cluster.Start(ctx, cfg)
}

// three starts three members of a new pool.
func (c *check) three(ctx context.Context, kind string, change ...func(*cluster.Config)) (pool string, ps []*process, nodes []*cluster.Node, err error) {
	if pool, err = c.pool(ctx, kind, 3); err != nil {
		return "", nil, nil, err
	}
	for _, name := range []string{"a", "b", "c"} {
		p, err := c.start(ctx, pool)
		if err != nil {
			return "", nil, nil, err
		}
		n, err := c.join(ctx, p, name, change...)
		if err != nil {
			return "", nil, nil, err
		}
		ps, nodes = append(ps, p), append(nodes, n)
	}
	return pool, ps, nodes, nil
}

// stop ends processes in order. In each process, the member ends before the lease.
func stop(ps []*process, nodes []*cluster.Node) (err error) {
	for i, n := range nodes {
		err = errors.Join(err, n.Close())
		if !ps[i].cut.Load() {
			err = errors.Join(err, ps[i].agent.Close())
		}
	}
	return err
}

// see reports whether a member sees exactly the given names.
func see(n *cluster.Node, names ...string) bool {
	found := map[string]bool{}
	for m := range n.State().Members() {
		found[m.Name] = true
	}
	for _, name := range names {
		if !found[name] {
			return false
		}
	}
	return len(found) == len(names) && n.State().Len() == len(names)
}

// members checks what is promised about the live members.
func (c *check) members(ctx context.Context) error {
	var told atomic.Bool // whether a listener was told that three members became two
	listener := func(_ context.Context, e cluster.Event) error {
		if e.Name == "a" && e.Previous.Len() == 3 && e.State.Len() == 2 {
			told.Store(true)
		}
		return nil
	}
	pool, ps, nodes, err := c.three(ctx, "members", func(cfg *cluster.Config) { cfg.Listeners = []cluster.Listener{listener} })
	if err != nil {
		return err
	}
	a, b := nodes[0], nodes[1]
	settled := 2*c.ttl + c.ttl/2
	all := func(names ...string) func() bool {
		return func() bool {
			for i, n := range nodes {
				if !ps[i].cut.Load() && n.Err() == nil && !see(n, names...) {
					return false
				}
			}
			return a.State().Len() == len(names)
		}
	}
	if err := c.eventually(ctx, settled, "all members of a whole network see the same members", all("a", "b", "c")); err != nil {
		return err
	}
	self := b.Self()
	if self.NodeID != ps[1].agent.NodeID() || self.Version != 1 || self.Name != "b" || self.SessionID == "" {
		return fmt.Errorf("b is %+v, want its lease's node ID and version", self)
	}
	c.holds("a member has the application's name, a session of its own, and its lease's node ID and version")

	if err := b.SetMetadata(map[string]string{"zone": "eu-central-1a"}); err != nil {
		return err
	}
	err = c.eventually(ctx, settled, "metadata can be changed while a member runs, and the others see it", func() bool {
		m, ok := a.State().Member(self.SessionID)
		return ok && m.Metadata["zone"] == "eu-central-1a"
	})
	if err != nil {
		return err
	}

	if err := errors.Join(nodes[2].Close(), ps[2].agent.Close()); err != nil {
		return err
	}
	if err := c.eventually(ctx, settled, "a member that releases its lease is gone, without a leave message", all("a", "b")); err != nil {
		return err
	}
	if err := c.eventually(ctx, c.ttl, "a listener receives the newest state, and the state that it received before", told.Load); err != nil {
		return err
	}

	ps[1].cut.Store(true)
	if err := c.eventually(ctx, settled, "a member that falls silent is dropped after the time-out", all("a")); err != nil {
		return err
	}
	ps[1].cut.Store(false)
	err = c.eventually(ctx, 2*settled, "a session that was dropped never comes back: the member has a new one, with the same node ID and version", func() bool {
		now := b.Self()
		_, old := a.State().Member(self.SessionID)
		_, seen := a.State().Member(now.SessionID)
		return !old && seen && now.SessionID != self.SessionID && now.NodeID == self.NodeID && now.Version == self.Version
	})
	if err != nil {
		return err
	}

	p, err := c.start(ctx, pool)
	if err != nil {
		return err
	}
	failing, err := c.join(ctx, p, "d", func(cfg *cluster.Config) {
		cfg.Listeners = []cluster.Listener{func(context.Context, cluster.Event) error { return errors.New("the disk is full") }}
	})
	if err != nil {
		return err
	}
	<-failing.Done()
	health := httptest.NewRecorder()
	failing.ServeHTTP(health, httptest.NewRequest(http.MethodGet, "/", nil))
	if _, err := p.agent.Lease(); err != nil || health.Code != http.StatusServiceUnavailable || !errors.Is(failing.Err(), cluster.ErrListener) {
		return fmt.Errorf("after its listener failed d has the lease %w, health %d and %w", err, health.Code, failing.Err())
	}
	c.holds("a member whose listener fails is permanently down, its health check reports that, and its lease continues")
	if err := c.eventually(ctx, settled, "the others no longer see it", func() bool { return see(a, "a", "b") }); err != nil {
		return err
	}

	leaseless, err := cluster.Start(ctx, cluster.Config{
		Cluster: pool, Name: "e", Coordinator: dynamocoordinator.New(p.client, c.table), Timeout: c.ttl, Metadata: map[string]string{"kind": "observer"},
	})
	if err != nil {
		return err
	}
	err = c.eventually(ctx, settled, "a process without a lease can also be a member", func() bool {
		m, ok := a.State().Member(leaseless.Self().SessionID)
		return ok && m.NodeID == cluster.NoNodeID && m.Metadata["kind"] == "observer"
	})
	return errors.Join(err, leaseless.Close(), failing.Close(), p.agent.Close(), stop(ps[:2], nodes[:2]))
}

// readiness checks what is promised about a member's predecessor on the node ID.
func (c *check) readiness(ctx context.Context) error {
	publish := func(cfg *cluster.Config) { cfg.PublishKnown = true }
	pool, ps, nodes, err := c.three(ctx, "ready", publish)
	if err != nil {
		return err
	}
	if err := nodes[2].WaitKnown(ctx); err != nil {
		return err
	}
	first, err := ps[2].agent.Lease()
	if err != nil {
		return err
	}
	if first.Predecessor() != nil {
		return fmt.Errorf("a new node ID has the predecessor %+v", first.Predecessor())
	}
	c.holds("a member on a node ID that was never held is ready at once")

	if err := c.eventually(ctx, 3*c.ttl, "(all members know each other)", func() bool { return see(nodes[0], "a", "b", "c") && see(nodes[1], "a", "b", "c") }); err != nil {
		return err
	}
	ps[2].cut.Store(true) // a crash
	second, n, err := c.successor(ctx, pool, publish)
	if err != nil {
		return err
	}
	if before := second.Predecessor(); second.NodeID != first.NodeID || second.Version != first.Version+1 || before == nil ||
		before.Session != first.Holder || before.Version != first.Version || before.Ended != lease.EndExpired {
		return fmt.Errorf("the successor of %+v is %+v after %+v, want the expired lease before it", first, second, before)
	}
	c.holds("the next holder has the next version, and knows its predecessor and that its lease expired")
	began := time.Now()
	if err := n.node.WaitKnown(ctx); err != nil {
		return err
	}
	if took := time.Since(began); took > 3*c.ttl {
		return fmt.Errorf("WaitKnown took %v: it gave up", took)
	}
	for _, other := range nodes[:2] {
		for m := range other.State().Members() {
			if m.NodeID == first.NodeID && m.Version != second.Version {
				return fmt.Errorf("after WaitKnown %s believes that version %d is alive", other.Self().Name, m.Version)
			}
		}
	}
	c.holds("after a crash a member is ready when no other believes that its predecessor is alive")

	if err := stop([]*process{n.process}, []*cluster.Node{n.node}); err != nil {
		return err
	}
	third, m, err := c.successor(ctx, pool, publish)
	if err != nil {
		return err
	}
	if before := third.Predecessor(); before == nil || before.Ended != lease.EndReleased || before.Version != second.Version {
		return fmt.Errorf("after a release the predecessor is %+v", before)
	}
	if err := m.node.WaitKnown(ctx); err != nil {
		return err
	}
	c.holds("after a release the next holder knows that, and is ready at once")
	return errors.Join(stop([]*process{m.process}, []*cluster.Node{m.node}), stop(ps, nodes))
}

// member is a process with its node.
type member struct {
	*process
	node *cluster.Node
}

// successor starts another member c, on the only node ID that is left.
func (c *check) successor(ctx context.Context, pool string, change func(*cluster.Config)) (lease.Lease, member, error) {
	p, err := c.start(ctx, pool)
	if err != nil {
		return lease.Lease{}, member{}, err
	}
	n, err := c.join(ctx, p, "c", change)
	if err != nil {
		return lease.Lease{}, member{}, err
	}
	l, err := p.agent.Lease()
	return l, member{p, n}, err
}
