package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
)

// leads reports whether a member believes that it leads.
func leads(n *cluster.Node) bool {
	m, ok := n.Leader()
	return ok && m.Same(n.Self())
}

// believers returns how many of the members believe that they lead.
func believers(nodes []*cluster.Node) (n int) {
	for _, node := range nodes {
		if leads(node) {
			n++
		}
	}
	return n
}

// leaders checks what is promised about the leader among the members, which each member chooses for itself.
func (c *check) leaders(ctx context.Context) error {
	began := time.Now()
	_, ps, nodes, err := c.three(ctx, "leaders")
	if err != nil {
		return err
	}
	for time.Since(began) < 3*c.ttl { // watched from the first moment on
		switch n := believers(nodes); {
		case n > 1:
			return errors.New("two members believe that they lead, in a whole network")
		case n == 1 && time.Since(began) < c.ttl/2:
			return errors.New("a member led before it had been recorded for one time-out")
		}
		if err := pause(ctx, c.ttl/100); err != nil {
			return err
		}
	}
	if !leads(nodes[0]) {
		return errors.New("the oldest session does not lead")
	}
	c.holds("members that start together have no leader for one time-out, then one: the oldest session")
	err = c.eventually(ctx, 3*c.ttl, "all members name the same leader", func() bool {
		for _, n := range nodes {
			if m, ok := n.Leader(); !ok || m.Name != "a" {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}

	ps[0].cut.Store(true)
	stale := 0
	err = c.eventually(ctx, 5*c.ttl, "a silent leader stops believing that it leads, and the next oldest leads", func() bool {
		if believers(nodes) > 1 {
			stale++
		}
		return leads(nodes[1])
	})
	if err == nil && stale > 0 {
		err = errors.New("the old leader and the new one believed so at the same time")
	}
	if err != nil {
		return err
	}
	ps[0].cut.Store(false)
	err = c.eventually(ctx, 5*c.ttl, "(the first one is back)", func() bool { return see(nodes[1], "a", "b", "c") })
	if err != nil {
		return err
	}
	for range 100 {
		if leads(nodes[0]) || !leads(nodes[1]) {
			return errors.New("the member that came back took the leadership from the one that leads")
		}
		if err := pause(ctx, c.ttl/50); err != nil {
			return err
		}
	}
	c.holds("a leader that comes back is the youngest, and takes leadership from no member")

	byName := func(s cluster.State) (best cluster.Member, ok bool) {
		for m := range s.Members() {
			if !ok || m.Name > best.Name {
				best, ok = m, true
			}
		}
		return best, ok
	}
	if m, ok := byName(nodes[1].State()); !ok || m.Name != "c" {
		return fmt.Errorf("the elector chose %+v", m)
	}
	c.holds("a custom rule chooses from the same state")
	return stop(ps, nodes)
}

// leaderLease checks what is promised about a leader lease: one process leads at a time, whatever the network does.
func (c *check) leaderLease(ctx context.Context) error {
	pool, err := c.pool(ctx, "leader", 1)
	if err != nil {
		return err
	}
	first, err := c.start(ctx, pool)
	if err != nil {
		return err
	}
	held, err := first.agent.Lease()
	if err != nil {
		return err
	}
	var highest int64 // the highest version that a resource has seen
	resource := func(version int64) error {
		if version < highest {
			return fmt.Errorf("version %d after %d", version, highest)
		}
		highest = version
		return nil
	}
	if err := resource(held.Version); err != nil {
		return err
	}
	first.cut.Store(true)
	second, err := c.start(ctx, pool) // it waits until the first lease ends
	if err != nil {
		return err
	}
	if _, err := first.agent.Lease(); !errors.Is(err, lease.ErrSuspended) {
		return fmt.Errorf("while the second leads, the first leader has %w, want ErrSuspended", err)
	}
	c.holds("a leader lease has one holder at a time: the first has stopped believing that it leads before the second begins")
	next, err := second.agent.Lease()
	if err != nil {
		return err
	}
	if err := resource(next.Version); err != nil || !next.Fenced() {
		return fmt.Errorf("the second leader: %+v, %w", next, err)
	}
	if resource(held.Version) == nil {
		return errors.New("the resource took a late request of the first leader")
	}
	c.holds("its version grows with each holder, so the resource refuses a late request of the previous one")
	first.cut.Store(false)
	select {
	case <-first.agent.Done():
	case <-time.After(2 * c.ttl):
		return errors.New("the first leader did not learn that it has lost")
	}
	if !errors.Is(first.agent.Err(), lease.ErrLost) {
		return fmt.Errorf("the first leader ended with %w, want ErrLost", first.agent.Err())
	}
	c.holds("the first one learns that its lease is permanently lost")
	return second.agent.Close()
}
