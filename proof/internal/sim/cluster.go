package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
)

// member is a process's part in the cluster.
type member struct {
	node  *cluster.Node
	leads atomic.Int64 // the number of listeners that are working as the leader
}

// takePart makes the process a member of the pool's cluster until ctx ends.
func (p *process) takePart(ctx context.Context) {
	m := &member{}
	n, err := cluster.Start(ctx, cluster.Config{
		Name: p.host, Agent: p.agent, Coordinator: dynamocoordinator.New(clientOf(ctx), tableName), Timeout: p.Plan.TTL(), PublishKnown: true,
		Logger: p.logger(), Listeners: []cluster.Listener{p.lead(m), p.stumble},
	})
	if err != nil {
		return
	}
	m.node = n
	p.judgeRecorded()
	p.member.Store(m)
	defer func() {
		p.member.Store(nil)
		_ = n.Close()
	}()
	wait, cancel := context.WithTimeout(ctx, p.patience())
	err = n.WaitKnown(wait)
	cancel()
	if err == nil {
		p.judgeKnown(n.Self())
	}
	select {
	case <-ctx.Done():
	case <-n.Done():
	}
	if n.Err() != nil { // no listener may continue to work; the sleep gives judgeListener time to check that
		_ = sleep(ctx, time.Minute)
	}
}

// lead returns a listener that works for a while, or until its context ends, whenever this
// node believes that it leads.
func (p *process) lead(m *member) cluster.Listener {
	return func(ctx context.Context, e cluster.Event) error {
		p.World.count(func(c *Counts) { c.States++ })
		if first, ok := cluster.LowestSession(e.State); !ok || first.SessionID != e.SessionID {
			return nil
		}
		m.leads.Add(1)
		defer m.leads.Add(-1)
		_ = sleep(ctx, p.upTo(2*time.Minute))
		return nil
	}
}

// stumble is a listener that fails now and then.
func (p *process) stumble(context.Context, cluster.Event) error {
	if p.intN(200) == 0 {
		return errors.New("stumbled")
	}
	return nil
}

// judgeListener checks that no listener continues to work for a node that has ended because
// its lease was lost or another listener failed.
func (p *process) judgeListener() error {
	m := p.member.Load()
	if m == nil || m.node == nil {
		return nil
	}
	if m.leads.Load() == 0 || m.node.Err() == nil && p.agent.Err() == nil {
		p.led.Store(0)
		return nil
	}
	if p.led.Add(1) > 5 { // seconds
		return fmt.Errorf("the listener that leads works on though the node is down: %w", errors.Join(m.node.Err(), p.agent.Err()))
	}
	return nil
}

// judgeRecorded checks that a node is recorded before it reads the others: when Start has
// returned, the table has the node's session, so that all who read later see the node. A copy
// renews without the session.
func (p *process) judgeRecorded() {
	l, err := p.agent.Lease()
	if err != nil || p.Plan.has("copies") || p.World.isBroken(l.NodeID) {
		return
	}
	item := p.network.item(l.NodeID)
	var said struct {
		M map[string]struct{ S string }
	}
	_ = json.Unmarshal(item["metadata"], &said) // without metadata, there is no session
	if text(item["holder"]) == l.Holder && text(item["version"]) == strconv.FormatInt(l.Version, 10) && said.M["session_id"].S == "" {
		p.World.fail(fmt.Errorf("process %d is a member of the cluster, and the table does not have its session", p.number))
	}
}

// judgeKnown checks the promise of WaitKnown: no member without troubles believes that an
// earlier holder of the node ID is alive. A process whose lease was freed by force is no
// longer a member, but notices this only at its next renewal, so it is not judged.
func (p *process) judgeKnown(self cluster.Member) {
	if p.network.calmFor() < p.patience() || p.wellSince().After(p.born) {
		return
	}
	// If a predecessor has released the node ID, WaitKnown does not wait until all members
	// have dropped this predecessor, because it no longer works.
	if l, err := p.agent.Lease(); err != nil || l.Predecessor() != nil && l.Predecessor().Ended == protocol.EndReleased {
		return
	}
	for _, q := range p.World.processes() {
		m := q.member.Load()
		if q == p || m == nil || m.node.Err() != nil || q.isDead() || time.Since(q.wellSince()) < p.patience() && q.wellSince().After(q.born) {
			continue
		}
		if l, err := q.agent.Lease(); err != nil || text(p.network.item(l.NodeID)["holder"]) != l.Holder {
			continue
		}
		for other := range m.node.State().Members() {
			if other.NodeID == self.NodeID && other.Version < self.Version {
				p.World.fail(fmt.Errorf("process %d was told that all know version %d of node %d, and process %d takes version %d for alive",
					p.number, self.Version, self.NodeID, q.number, other.Version))
			}
		}
	}
}

// session is a node's session as it was last seen in the table.
type session struct {
	heartbeat, seen time.Time
}

// judgeSession checks that a session does not come back once all members have dropped it: a
// node that was silent for longer than the time-out must come back with a new session.
func (w *World) judgeSession(e history.Event, metadata json.RawMessage) {
	var said struct {
		M map[string]struct{ S string }
	}
	// A copy does not take part in the cluster. But it renews with the metadata that it
	// finds in the lease, and so keeps the session of its original alive.
	if w.Plan.Wild || w.Plan.has("glitch") || w.Plan.has("copies") || !w.Plan.has("cluster") || json.Unmarshal(metadata, &said) != nil {
		return
	}
	id := said.M["session_id"].S
	if id == "" || said.M["has_left"].S != "" {
		return
	}
	now := session{time.UnixMilli(e.Expires).Add(-e.TTL), time.Now()}
	before, known := w.sessions[id]
	w.sessions[id] = now
	silent, slack := min(now.heartbeat.Sub(before.heartbeat), now.seen.Sub(before.seen)), time.Second
	if w.Plan.has("steps") {
		slack += 2 * w.Plan.ClockError
	}
	if known && silent > w.Plan.TTL()+slack {
		w.fail(fmt.Errorf("session %s of node %d comes back after a silence of %v; the time-out is %v", id, e.Node, silent, w.Plan.TTL()))
	}
}
