package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
)

// member is a process that takes part in a cluster.
type member struct {
	*process
	*cluster.Node
}

// join starts a process, and its membership.
func (w *world) join(pool string, size int, name string, publish bool) (*member, error) {
	p, err := w.start(pool, size, wait(4*ttl))
	if err != nil {
		return nil, err
	}
	n, err := cluster.Start(w.ctx, cluster.Config{
		Name: name, Agent: p.Agent, Coordinator: cluster.NewTable(p.client, w.table), PublishKnown: publish, Logger: quiet(),
	})
	if err != nil {
		end(p)
		return nil, err
	}
	return &member{p, n}, nil
}

// leave ends a member as a process does that is stopped.
func (m *member) leave() {
	if m != nil {
		_ = m.Node.Close()
		_ = m.process.Close()
	}
}

// sees reports whether a member believes a session alive.
func (m *member) sees(session string) bool {
	_, ok := m.State().Member(session)
	return ok
}

// leads reports whether a member believes that it leads.
func (m *member) leads() bool {
	l, ok := m.Leader()
	return ok && l.SessionID == m.Self().SessionID
}

// members: who is alive, and who leads.
func members(w *world) error {
	pool := w.pool("members")
	began := time.Now()
	var all []*member
	defer func() {
		for _, m := range all {
			m.leave()
		}
	}()
	for _, name := range []string{"a", "b", "c"} {
		m, err := w.join(pool, 4, name, true)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	a, b, c := all[0], all[1], all[2]
	w.check("etcd", "a session is there for others as soon as it was made", c.sees(a.Self().SessionID) && c.sees(b.Self().SessionID), "the last one sees %d", c.State().Len())
	early := a.leads() || b.leads() || c.leads()
	took, ok := w.until(3*ttl, func() bool { return a.State().Equal(b.State()) && b.State().Equal(c.State()) && a.State().Len() == 3 })
	w.check("Consul", "all members see the same members", ok, "after %v", round(took))
	_, ok = w.until(3*ttl, func() bool {
		for _, m := range all {
			if l, known := m.Leader(); !known || l.Name != "a" {
				return false
			}
		}
		return true
	})
	w.check("ZooKeeper", "the oldest session leads, and all know it", ok && !early, "%v after the start", round(time.Since(began)))

	if err := b.Node.SetMetadata(map[string]string{"partition": "7"}); err != nil {
		return err
	}
	_, ok = w.until(3*ttl, func() bool {
		m, _ := a.State().Member(b.Self().SessionID)
		return m.Metadata["partition"] == "7"
	})
	w.check("etcd", "a leader or member can change what others read about it (Proclaim)", ok, "partition 7")

	// The leader is cut off. Both others watch, and one asks all the time.
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	told := make(chan string, 100)
	go func() {
		for e := range c.Changes(ctx) {
			select {
			case told <- e.Leader.Name:
			default:
			}
		}
	}()
	session, id := a.Self().SessionID, a.NodeID()
	a.crash()
	two := false
	took, ok = w.until(5*ttl, func() bool {
		n := 0
		for _, m := range all {
			if m.leads() {
				n++
			}
		}
		two = two || n > 1
		return b.leads() && !c.sees(session)
	})
	w.check("etcd", "a session that is not kept alive ends, and the next candidate leads", ok, "b after %v", round(took))
	w.check("dynamolock", "only one host is the leader", !two, "never two, asked every 50 ms")
	observed := false
	_, _ = w.until(3*ttl, func() bool {
		for len(told) > 0 {
			observed = observed || <-told == "b"
		}
		return observed
	})
	w.check("etcd", "changes of the leader can be observed", observed, "c was told of b")

	a.line.cut.Store(false)
	took, ok = w.until(4*ttl, func() bool { return a.Self().SessionID != session && b.sees(a.Self().SessionID) })
	w.check("CockroachDB", "a dead session stays dead", ok && !b.sees(session) && a.NodeID() == id, "a is back as another session with the same node ID after %v", round(took))
	_, again := w.until(ttl+ttl/2, a.leads)
	w.check("etcd", "one that comes back does not take the lead away", !again && b.leads(), "b still leads")
	return nil
}

// readiness: what a node waits for before it says that it is ready.
func readiness(w *world) error {
	pool := w.pool("ready")
	peer, err := w.join(pool, 2, "peer", true)
	if err != nil {
		return err
	}
	defer func() { peer.leave() }()
	ready := func(m *member) (requests int64, took time.Duration, err error) {
		before, begin := m.line.requests(), time.Now()
		err = m.WaitKnown(w.ctx)
		return m.line.requests() - before, time.Since(begin), err
	}
	node, err := w.join(pool, 2, "node", true)
	if err != nil {
		return err
	}
	requests, _, err := ready(node)
	w.check("Zeebe", "a node with an ID that nobody had is ready at once", err == nil && requests == 0, "%d requests, %v", requests, err)
	node.leave()

	if node, err = w.join(pool, 2, "node", true); err != nil {
		return err
	}
	requests, _, err = ready(node)
	w.check("Zeebe", "a node is ready at once if the lease before was released gracefully", err == nil && requests == 0 && node.Self().Version == 2, "version %d, %d requests", node.Self().Version, requests)

	node.crash()
	old := node
	if node, err = w.join(pool, 2, "node", true); err != nil {
		return err
	}
	_, took, err := ready(node)
	known, kerr := cluster.NewTable(peer.client, w.table).Known(w.ctx, pool)
	v := known[peer.Self().Key()][node.Self().Key()]
	w.check("Zeebe", "if it timed out, the node waits until all others have its version in their mappings", err == nil && kerr == nil && v == node.Self().Version && took < 3*ttl,
		"the peer has version %d of %d, after %v", v, node.Self().Version, round(took))
	old.leave()

	// The peer is replaced by one that has a membership of its own (SWIM).
	peer.leave()
	if peer, err = w.join(pool, 2, "peer", false); err != nil {
		return err
	}
	node.crash()
	old = node
	if node, err = w.join(pool, 2, "node", true); err != nil {
		return err
	}
	short, stop := context.WithTimeout(w.ctx, ttl/2)
	err = node.WaitKnown(short)
	stop()
	waits := errors.Is(err, context.DeadlineExceeded)
	if err := peer.Publish(w.ctx, cluster.Versions{node.Self().Key(): node.Self().Version}); err != nil {
		return err
	}
	_, took, err = ready(node)
	w.check("Zeebe", "the versions are those that the membership (SWIM) notifies", waits && err == nil && took < 2*ttl, "it waited, and was ready %v after the notification", round(took))
	old.leave()

	node.crash()
	old = node
	if node, err = w.join(pool, 2, "node", true); err != nil {
		return err
	}
	_, took, err = ready(node)
	w.check("Zeebe", "it is ready after a time-out if a member does not answer, so that no start is blocked", err == nil && took > ttl, "after %v", round(took))
	old.leave()
	node.leave()
	return nil
}

// election: one leader where it matters.
func election(w *world) error {
	pool := w.pool("leader")
	one, err := w.start(pool, 1, nil)
	if err != nil {
		return err
	}
	type result struct {
		p   *process
		err error
	}
	won := make(chan result, 1)
	go func() {
		p, err := w.start(pool, 1, wait(10*ttl))
		won <- result{p, err}
	}()
	time.Sleep(2 * ttl)
	blocked := len(won) == 0
	first := one.held()
	if err := one.Close(); err != nil {
		return err
	}
	begin := time.Now()
	r := <-won
	if r.err != nil {
		return r.err
	}
	defer end(r.p)
	second := r.p.held()
	w.check("etcd", "Campaign waits until the leader resigns", blocked, "elected %v after that", round(time.Since(begin)))

	// The resource remembers the largest token that it has seen.
	var largest int64
	write := func(l lease.Lease) error {
		if !l.Fenced() || l.Version < largest {
			return fmt.Errorf("version %d is older than %d", l.Version, largest)
		}
		largest = l.Version
		return nil
	}
	ok, stale := write(second), write(first)
	w.check("etcd", "the revision of the ownership fences writes of an earlier leader", ok == nil && stale != nil, "%v", stale)
	_, err = one.Lease()
	w.check("etcd", "one that resigned no longer leads", errors.Is(err, lease.ErrClosed), "%v", err)
	return nil
}
