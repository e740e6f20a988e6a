package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

var (
	// ErrListener is returned by Err after a listener failed or panicked.
	ErrListener = errors.New("cluster: listener failed")
	// ErrLease is returned by Err after the lease of the node was lost or closed.
	ErrLease = errors.New("cluster: no lease")
	// ErrClosed is returned by Err after Close.
	ErrClosed = errors.New("cluster: closed")
)

// Node is one live process in a cluster. All of its methods are safe for
// concurrent use, and none waits for a listener.
type Node struct {
	cfg Config

	mu        sync.Mutex
	now       view
	confirmed time.Time     // the last heartbeat
	turned    chan struct{} // closed by the next heartbeat
	err       error
	done      chan struct{}

	// Only the heartbeat's goroutine has these.
	expired   time.Time       // the last time that this node had the backend forget
	published Versions        // what it said last that it knows
	renewed   <-chan struct{} // of the agent, asked for before the lease was read

	cancel  context.CancelFunc
	workers sync.WaitGroup
}

// view is a node's own session and what it saw last.
type view struct {
	self  Member
	state State
}

// A record that had no heartbeat for so long is forgotten, by a look so often.
const (
	forgetAfter = 24 * time.Hour
	expireEvery = time.Hour
)

// callbacksLimit is how long Close waits for listeners that do not end with
// their context.
const callbacksLimit = time.Second

// Start takes part in a cluster, and heartbeats until Close. It returns when the
// first heartbeat has shown a state; ctx bounds only that.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, turned: make(chan struct{}), done: make(chan struct{}), confirmed: time.Now()}
	n.now.self = Member{Cluster: cfg.Cluster, NodeID: cfg.NodeID, Number: NoNumber, Metadata: maps.Clone(cfg.Metadata)}
	if err := n.rotate(); err != nil {
		return nil, err
	}
	if cfg.Agent != nil {
		n.renewed = cfg.Agent.Renewed()
		cfg.Agent.BeforeResume(func() { _ = n.rotateIfSilent() }) // a failure shows at the next turn
	}
	for failed := n.turn(ctx); failed != nil; failed = n.turn(ctx) {
		if err := n.pause(ctx, false); err != nil {
			return nil, errors.Join(fmt.Errorf("cluster: no heartbeat of %q yet: %w: %w", cfg.NodeID, err, failed), n.Close())
		}
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel = cancel
	n.workers.Go(func() { n.loop(background) })
	for _, l := range cfg.Listeners {
		n.workers.Go(func() { n.listen(background, l) })
	}
	return n, nil
}

// loop heartbeats until the node ends.
func (n *Node) loop(ctx context.Context) {
	ok := true
	for n.Err() == nil && n.pause(ctx, ok) == nil {
		err := n.turn(ctx)
		if ok = err == nil; !ok && ctx.Err() == nil && n.Err() == nil {
			n.cfg.Logger.Warn("cluster heartbeat failed", "cluster", n.cfg.Cluster, "node_id", n.cfg.NodeID, "error", err)
		}
	}
}

// pause waits for the next heartbeat: the agent's next renewal, or a while.
func (n *Node) pause(ctx context.Context, ok bool) error {
	wait := n.cfg.Every - n.cfg.Every/10 + rand.N(n.cfg.Every/5+1)
	if !ok {
		wait = rand.N(min(wait, time.Second)) + 1
	}
	var lost <-chan struct{}
	if n.cfg.Agent != nil {
		lost = n.cfg.Agent.Done()
		// Nothing to do between renewals, but a silence that is too long.
		wait = max(n.cfg.Timeout-n.silence(), 0) + 1
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.renewed:
	case <-lost:
		err := fmt.Errorf("%w: %w", ErrLease, n.cfg.Agent.Err())
		n.end(err)
		return err
	case <-n.done:
		return n.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// turn does one heartbeat.
func (n *Node) turn(ctx context.Context) error {
	if err := n.rotateIfSilent(); err != nil {
		n.end(err)
		return err
	}
	if n.cfg.Agent != nil {
		if err := n.renewal(); err != nil {
			return err
		}
	}
	v, _ := n.view()
	one, cancel := context.WithTimeout(ctx, n.cfg.Timeout/3)
	defer cancel()
	first, _ := LowestSession(v.state)
	members, err := n.cfg.Coordinator.Heartbeat(one, Beat{Self: v.self, Timeout: n.cfg.Timeout, Oldest: first.Same(v.self)})
	if err != nil {
		return err
	}
	state := n.observe(members)
	n.tellKnown(one, state)
	n.expire(one)
	return nil
}

// observe takes in what a heartbeat showed.
func (n *Node) observe(members []Member) State {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now.self.Heartbeat, n.confirmed = time.Now(), time.Now()
	for _, m := range members {
		if m.Same(n.now.self) {
			n.now.self = m
		}
	}
	n.now.state = newState(n.now.self, members)
	close(n.turned)
	n.turned = make(chan struct{})
	return n.now.state
}

// expire has the backend forget what nobody needs, now and then, by one member.
func (n *Node) expire(ctx context.Context) {
	v, _ := n.view()
	if first, _ := LowestSession(v.state); !first.Same(v.self) || time.Since(n.expired) < expireEvery {
		return
	}
	if err := n.cfg.Coordinator.Expire(ctx, n.cfg.Cluster, max(forgetAfter, 2*n.cfg.Timeout)); err != nil {
		n.cfg.Logger.Warn("cluster expire failed", "cluster", n.cfg.Cluster, "error", err)
		return
	}
	n.expired = time.Now()
}

// view is the present one, and a channel that the next heartbeat closes.
func (n *Node) view() (view, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now, n.turned
}

// State is who was alive as of the last heartbeat.
func (n *Node) State() State {
	v, _ := n.view()
	return v.state
}

// Self is this node's own session.
func (n *Node) Self() Member {
	v, _ := n.view()
	return v.self.clone()
}

// Done is closed when the node takes part no more; Err then says why.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is nil while the node takes part, then ErrListener, ErrLease or ErrClosed
// with the reason.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// end stops taking part, once. With a lease, the next renewal says so, and the
// lease goes on; without, members drop the session after the time-out.
func (n *Node) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	n.err = err
	close(n.done)
	if n.cfg.Agent != nil {
		n.cfg.Agent.BeforeResume(nil)
		if err := n.cfg.Agent.SetMetadata(map[string]string{metaLeft: "1"}); err != nil {
			n.cfg.Logger.Warn("cluster mark not set", "cluster", n.cfg.Cluster, "node_id", n.cfg.NodeID, "error", err)
		}
	}
	if !errors.Is(err, ErrClosed) {
		n.cfg.Logger.Error("cluster node is down", "cluster", n.cfg.Cluster, "node_id", n.cfg.NodeID, "session_id", n.now.self.SessionID, "error", err)
	}
}

// Close stops taking part and waits until heartbeats and listeners have ended,
// for listeners up to 1 s. It may be called again, and from a listener. The lease
// goes on: close the agent after it. It returns nil.
func (n *Node) Close() error {
	n.end(ErrClosed)
	if n.cancel == nil {
		return nil
	}
	n.cancel()
	ended := make(chan struct{})
	go func() { n.workers.Wait(); close(ended) }()
	t := time.NewTimer(callbacksLimit)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
	return nil
}
