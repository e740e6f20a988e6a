//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
)

const (
	timeout = 2 * time.Second
	every   = 400 * time.Millisecond
)

func (b *board) start(ctx context.Context, name string, listeners ...cluster.Listener) (*cluster.Node, *line, error) {
	l := &line{board: b}
	n, err := cluster.Start(ctx, cluster.Config{
		Cluster: "strangers", Name: name, Coordinator: l, Timeout: timeout, Every: every,
		Metadata: map[string]string{"speaks": name}, Listeners: listeners, Logger: quiet,
	})
	return n, l, err
}

// startAll starts a node for each name.
func (b *board) startAll(ctx context.Context, names ...string) ([]*cluster.Node, error) {
	var nodes []*cluster.Node
	for _, name := range names {
		n, _, err := b.start(ctx, name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// until waits until a node sees a state for which holds returns true.
func until(ctx context.Context, n *cluster.Node, what string, holds func(cluster.Event) bool) (cluster.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for e := range n.Changes(ctx) {
		if holds(e) {
			return e, nil
		}
	}
	return cluster.Event{}, fmt.Errorf("%s never saw that %s: %w", n.Self().Name, what, errors.Join(ctx.Err(), n.Err()))
}

func size(n int) func(cluster.Event) bool {
	return func(e cluster.Event) bool { return e.State.Len() == n }
}

func named(s cluster.State, name string) (cluster.Member, bool) {
	for m := range s.Members() {
		if m.Name == name {
			return m, true
		}
	}
	return cluster.Member{}, false
}

func clusterMembers(ctx context.Context, w *world) error {
	b := newBoard()
	nodes, err := b.startAll(ctx, "a", "b", "c")
	if err != nil {
		return err
	}
	a, second, c := nodes[0], nodes[1], nodes[2]
	defer a.Close()
	defer c.Close()
	three, err := until(ctx, a, "there are three", size(3))
	if err != nil {
		return err
	}
	_, err = until(ctx, c, "there are three", size(3))
	w.judge("C4", err)
	m, ok := named(three.State, "b")
	w.judge("C5", want(three.State.Equal(c.State()), "%v and %v are not equal", three.State, c.State()),
		want(ok && m.Cluster == "strangers" && !m.Heartbeat.IsZero() && m.Metadata["speaks"] == "b", "%+v", m),
		want(m.Same(second.Self()), "it is not the same as %+v", second.Self()))

	closed := time.Now()
	_ = second.Close()
	_, err = until(ctx, a, "b is gone", size(2))
	took := time.Since(closed)
	w.judge("C2", err, want(took > timeout-2*every && took < timeout+4*every, "gone %v after it was closed, with a time-out of %v", took, timeout),
		want(three.State.Len() == 3, "the old snapshot has changed"))
	again, _, err := b.start(ctx, "b")
	if err != nil {
		return err
	}
	defer again.Close()
	back, err := until(ctx, a, "b is back", size(3))
	n, ok := named(back.State, "b")
	w.judge("C1", err, want(ok && n.Name == m.Name && n.SessionID != m.SessionID, "%+v, and then %+v", m, n), want(n.Version == m.Version+1, "version %d, then %d", m.Version, n.Version))
	w.judge("C3", err, want(took > timeout/2, "closing a node was a leave: gone after %v", took))
	return nil
}

func clusterListener(ctx context.Context, w *world) error {
	b := newBoard()
	events := make(chan cluster.Event, 100)
	release := make(chan struct{})
	a, l, err := b.start(ctx, "slow", func(_ context.Context, e cluster.Event) error {
		events <- e
		<-release
		return nil
	})
	if err != nil {
		return err
	}
	defer a.Close()
	first := <-events
	beats := l.beats.Load()
	for i := range 4 { // each node is seen before the next one starts
		n, _, err := b.start(ctx, fmt.Sprint("n", i))
		if err != nil {
			return err
		}
		defer n.Close()
		if _, err := until(ctx, a, "there is one more", size(i+2)); err != nil {
			return err
		}
	}
	w.judge("C8", want(l.beats.Load() >= beats+4, "%d heartbeats", l.beats.Load()-beats), want(len(events) == 0, "called again meanwhile"))
	close(release)
	e := <-events
	w.judge("C6", want(e.State.Len() == 5, "the next event has %d members", e.State.Len()))
	w.judge("C7", want(e.Cluster == "strangers" && e.Name == "slow" && e.SessionID == a.Self().SessionID, "%+v", e),
		want(e.Previous.Equal(first.State), "previous has %d members, the first event had %d", e.Previous.Len(), first.State.Len()))
	return nil
}

func clusterFatal(ctx context.Context, w *world) error {
	b := newBoard()
	a, _, err := b.start(ctx, "a")
	if err != nil {
		return err
	}
	defer a.Close()
	p, _, err := b.start(ctx, "panics", func(_ context.Context, e cluster.Event) error {
		if e.State.Len() == 3 {
			panic("a listener that fails")
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer p.Close()
	health := func() int {
		r := httptest.NewRecorder()
		p.ServeHTTP(r, httptest.NewRequest("GET", "/", nil))
		return r.Code
	}
	up := health()
	c, _, err := b.start(ctx, "c")
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := until(ctx, a, "there are three", size(3)); err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	down := health()
	_, err = until(ctx, a, "the one with the fatal listener is gone", size(2))
	w.judge("C9", err, want(errors.Is(p.Err(), cluster.ErrListener), "%v", p.Err()))
	w.judge("C10", want(up == 200 && down == 503, "%d, then %d", up, down))
	return nil
}

func clusterSilence(ctx context.Context, w *world) error {
	b := newBoard()
	a, _, err := b.start(ctx, "a")
	if err != nil {
		return err
	}
	defer a.Close()
	s, l, err := b.start(ctx, "silent")
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := until(ctx, a, "there are two", size(2)); err != nil {
		return err
	}
	session := s.Self().SessionID
	l.fail.Store(2)
	c, _, err := b.start(ctx, "c") // when the silent node sees c, its heartbeats arrive again
	if err != nil {
		return err
	}
	_, err = until(ctx, s, "there are three", size(3))
	w.judge("C11", err, want(s.Self().SessionID == session, "another session"), want(l.fail.Load() == 0, "no heartbeat failed"))

	l.fail.Store(1 << 40)
	_ = c.Close()
	_, err = until(ctx, a, "it sees only itself", size(1))
	w.judge("C13", err, want(s.State().Len() == 3, "the silent node sees %d members", s.State().Len()))
	l.fail.Store(0)
	e, err := until(ctx, a, "the silent one is back", size(2))
	m, ok := named(e.State, "silent")
	w.judge("C12", err, want(ok && m.SessionID != session, "%+v, the session was %s", m, session))
	return nil
}

func clusterLeader(ctx context.Context, w *world) error {
	b := newBoard()
	began := time.Now()
	nodes, err := b.startAll(ctx, "x", "y", "z")
	if err != nil {
		return err
	}
	lowest := nodes[0].Self()
	var problems error
	for _, n := range nodes {
		e, err := until(ctx, n, "there is a leader", func(e cluster.Event) bool { return e.Leader.SessionID != "" && e.State.Len() == 3 })
		problems = errors.Join(problems, err, want(e.Leader.Same(lowest), "%s sees that %+v leads", n.Self().Name, e.Leader))
	}
	took := time.Since(began)
	_ = nodes[0].Close()
	e, err := until(ctx, nodes[2], "the next one leads", func(e cluster.Event) bool { return e.Leader.Name == "y" })
	w.differs("C14", "the lowest session, once it was recorded for one time-out", problems, err, want(took > timeout-every, "a leader after %v", took), want(e.State.Len() == 2, "it sees %d members", e.State.Len()))

	chosen, ok := cluster.LowestSession(e.State)
	empty, none := cluster.LowestSession(cluster.State{})
	w.judge("C15", want(ok && chosen.Same(e.Leader), "%+v", chosen), want(!none, "a leader of no members: %+v", empty))
	_ = nodes[1].Close()
	return nodes[2].Close()
}
