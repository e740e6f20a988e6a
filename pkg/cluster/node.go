package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

var (
	// ErrListener is returned by Err after a listener failed or panicked.
	ErrListener = errors.New("cluster: listener failed")
	// ErrLease is returned by Err after the lease of the node was lost or closed.
	ErrLease = errors.New("cluster: no lease")
	// ErrClosed is returned by Err after Close.
	ErrClosed = errors.New("cluster: closed")
	// ErrDropped is returned by a Coordinator for the heartbeat of a session that
	// was silent for longer than the time-out, or was replaced by a newer version.
	// Others have dropped the session, and may have acted on its end.
	ErrDropped = errors.New("cluster: the session was dropped")

	errUnrecorded = errors.New("cluster: the lease does not carry this session yet")
	errLate       = errors.New("cluster: the answer came too late to count")
)

// Node is one live process in a cluster. All of its methods are safe for
// concurrent use, and none waits for a listener. Start returns a Node; a nil or zero
// Node behaves like a closed one.
type Node struct {
	cfg   Config
	clock clock // includes the time for which the machine was suspended

	mu     sync.Mutex
	now    view
	times  times
	seenBy string        // the session that the state was returned to
	ttl    time.Duration // the lease's TTL; 0 until the lease is first read
	clean  bool          // whether the last holder of the node ID released it
	turned chan struct{} // closed by the next heartbeat or the next session
	err    error
	done   chan struct{}

	publishing chan struct{} // has room for one Publish at a time, so that revisions arrive in order
	revision   int64         // of the last publication

	// Only the heartbeat's goroutine uses these fields.
	at        time.Time       // the time in the last heartbeat
	confirmed time.Time       // the time in the last heartbeat that the backend recorded
	sender    string          // the session in the last heartbeat
	begun     int64           // how many sessions have sent a heartbeat since record was read
	nudged    string          // the session for which a renewal was last asked for
	seen      []Member        // the result of the last heartbeat
	expired   time.Duration   // the last time that this node expired old records
	published Versions        // this node's last publication
	due       time.Duration   // when the known versions are to be published; 0 if there is nothing new
	renewed   <-chan struct{} // the agent's channel, requested before the lease was read
	failures  int             // failed heartbeats in a row
	failed    int             // failed heartbeats that report counts, since the last that succeeded
	told      time.Duration   // when a failed heartbeat was last logged
	namesake  time.Duration   // when another session with this name was first noticed or last logged; 0 if there is none
	met       time.Duration   // when a session with this name was last noticed
	record    Member          // this node's own record, as of the last heartbeat
	highest   highest         // the latest versions that this node has seen
	warned    warned          // when each warning was last logged

	ctx     context.Context // of heartbeats and listeners; ends with the node
	cancel  context.CancelFunc
	workers sync.WaitGroup
}

// absent reports whether n is nil or zero, that is, not returned by Start.
func (n *Node) absent() bool { return n == nil || n.done == nil }

var (
	errAbsent = fmt.Errorf("%w: this Node is nil or zero: cluster.Start returns one", ErrClosed)
	ended     = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
)

// clock has the methods of a snowflake.Clock that a node needs.
type clock interface {
	Wall() time.Time
	Monotonic() time.Duration
}

// view is a node's own session and its last state.
type view struct {
	self  Member
	state State
}

// A record that has had no heartbeat for forgetAfter is deleted. A node looks for such
// records once per expireEvery.
const (
	forgetAfter = 24 * time.Hour
	expireEvery = time.Hour
)

// callbacksLimit is how long Close waits for listeners that do not end with
// their context.
const callbacksLimit = time.Second

// Start takes part in a cluster, and sends heartbeats until Close. It returns once the
// node is recorded and has then read the others. ctx bounds only the wait until Start
// returns.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err := errors.Join(protocol.CheckContext(ctx), err); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, clock: snowflake.SystemClock(), turned: make(chan struct{}), publishing: make(chan struct{}, 1), done: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.now.self = Member{Cluster: cfg.Cluster, Name: cfg.Name, NodeID: NoNodeID, Metadata: maps.Clone(cfg.Metadata)}
	if err := n.rotate(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if cfg.Agent != nil {
		cfg.Agent.KeepShort() // the lease shows others whether this node lives
		n.renewed = cfg.Agent.Renewed()
		siblings.BeforeResume(cfg.Agent, n.beforeResume)
		n.workers.Go(n.watchLease)
	}
	for failed := n.turn(ctx); failed != nil; failed = n.turn(ctx) {
		n.report(ctx, failed) // ctx may have no deadline
		if err := n.pause(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("cluster: no heartbeat of %q yet: %w: %w", cfg.Name, err, failed), n.Close())
		}
	}
	n.report(ctx, nil)
	n.workers.Go(n.loop)
	for _, l := range cfg.Listeners {
		n.workers.Go(func() { n.listen(l) })
	}
	return n, nil
}

// watchLease ends the node with its lease.
func (n *Node) watchLease() {
	select {
	case <-n.cfg.Agent.Done():
		n.end(fmt.Errorf("%w: %w", ErrLease, n.cfg.Agent.Err()))
	case <-n.done:
	}
}

// loop sends heartbeats until the node ends.
func (n *Node) loop() {
	for n.Err() == nil && n.pause(n.ctx) == nil {
		n.report(n.ctx, n.turn(n.ctx))
	}
}

// tellEvery is how often a continuing failure is logged: otherwise a fleet in an
// outage would write a line for each attempt.
const tellEvery = time.Minute

// pause waits until the next heartbeat is due. With an agent, that is after the agent's
// next renewal, otherwise after about Config.Every. After a failure, the first attempts
// come sooner than that. Later attempts come less and less often, so that a fleet does
// not multiply its load while the backend answers with errors.
func (n *Node) pause(ctx context.Context) error {
	wait := n.cfg.Every - n.cfg.Every/10 + rand.N(n.cfg.Every/5+1)
	retry := rand.N(min(n.cfg.Every, firstRetry<<min(n.failures, 20))) + 1
	switch {
	case n.failures > 0:
		wait = retry
	case n.cfg.Agent != nil:
		// Between renewals there is nothing to do, unless the node has been silent for
		// too long.
		wait = max(n.trust()-n.silence(), 0) + 1
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.renewed:
	case <-n.done:
		return n.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// firstRetry bounds the pause after the first failed heartbeat. Each later pause may be
// twice as long as the previous one, up to Config.Every.
const firstRetry = 100 * time.Millisecond

// turn sends one heartbeat and applies its result.
func (n *Node) turn(ctx context.Context) (err error) {
	defer func() {
		if n.failures++; err == nil || errors.Is(err, errUnrecorded) {
			n.failures = 0
		}
	}()
	// Silence counts from the moment when the heartbeat was sent. Both clocks are read
	// before anything is sent. So if the process is frozen from here on, others that
	// receive the late request do not consider this node alive, and this node does not
	// consider the late answer fresh.
	sent, wall := n.clock.Monotonic(), n.clock.Wall()
	// The time in a heartbeat does not go back, although the wall clock may: a backend takes
	// an earlier time for that of a late request, and does not record it. Only if the clock
	// was far ahead, and is right again, it goes back at once.
	//
	// Invariant: it goes back only if the record is certainly too far ahead for the backend,
	// which may count milliseconds. The last heartbeat may not have arrived, so only a
	// confirmed one counts.
	if n.at.Before(wall) || n.confirmed.Sub(wall) > MaxClockBack+time.Second {
		n.at = wall
	}
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
	// Invariant: each session begins at a later time than those in the heartbeats of the
	// previous one, so that none of these, if it arrives late, replaces the new session. A
	// backend may count milliseconds.
	if v.self.SessionID != n.sender {
		n.at, n.sender, n.begun = n.at.Add(time.Millisecond), v.self.SessionID, n.begun+1
		n.published = nil // it may have been forgotten with the previous session
	}
	one, cancel := context.WithTimeout(ctx, n.cfg.Timeout/3)
	defer cancel()
	first, _ := LowestSession(v.state)
	snap, err := n.cfg.Coordinator.Heartbeat(one, Beat{Self: v.self, At: n.at, Timeout: n.cfg.Timeout, Elect: n.cfg.Elect, Oldest: first.Same(v.self)})
	if errors.Is(err, ErrDropped) {
		if rotated := n.rotate(); rotated != nil {
			n.end(rotated)
		}
	}
	if err != nil {
		return err
	}
	n.confirmed = n.at
	if snap.Warning != nil {
		n.warn("cluster heartbeat", snap.Warning)
	}
	state, replaced, err := n.observe(v.self, sent, snap)
	if err != nil {
		return err
	}
	n.lookForNamesake(state, replaced)
	n.tellKnown(one, state)
	n.expire(one)
	return nil
}

// observe applies the result of a session's heartbeat, unless the result is too old to
// count: the process may have been frozen since it sent the heartbeat. It also reports
// whether another session has used this node's record since the last heartbeat.
func (n *Node) observe(sender Member, sent time.Duration, snap Snapshot) (s State, replaced bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Monotonic()
	if !sender.Same(n.now.self) || now-sent > n.trust() {
		return State{}, false, errLate
	}
	changed := !sameSlice(snap.Members, n.seen) || n.seenBy != sender.SessionID
	// A node that its own read lacks is not seen by others either, so the read does not
	// count. Otherwise the node would be alone in its state, and would lead.
	if changed && !snap.has(sender) {
		return State{}, false, n.missing()
	}
	if n.cfg.Agent == nil {
		n.times.heard = max(n.times.heard, sent)
	}
	n.times.looked = sent
	if !n.times.recorded {
		n.times.recorded, n.times.since = true, now
	}
	if changed {
		metadata := n.now.self.Metadata // the backend may still have the earlier metadata
		n.seen = snap.Members
		snap.Members = n.withoutOutdated(snap.Members, now)
		n.now.state = newState(&n.now.self, snap)
		n.seenBy, n.now.self.Metadata = sender.SessionID, metadata
	}
	n.now.state.heard = snap.Heard
	n.now.self.Heartbeat = time.Now()
	// Without leases, all nodes with the same name share one record, whose version grows with
	// each session. The backend may also have recorded sessions of this node whose answers were
	// lost.
	//
	// Invariant: a session that another one has replaced does not go on. Others have dropped it,
	// and one of them may lead.
	own, begun := n.record, n.begun
	n.record, n.begun = n.now.self, 0
	if n.cfg.Agent == nil && own.Version != 0 {
		same := own.Same(n.record)
		replaced = n.record.Version > own.Version+begun || same && n.record.Version != own.Version
		if replaced && same {
			return n.now.state, true, n.rotateLocked()
		}
	}
	close(n.turned)
	n.turned = make(chan struct{})
	return n.now.state, replaced, nil
}

// missing returns the error for a read that lacks this node.
func (n *Node) missing() error {
	if n.cfg.Agent == nil {
		return fmt.Errorf("cluster: the backend recorded the heartbeat of %q, but its members lack this session: does another process have the same name?", n.cfg.Name)
	}
	return fmt.Errorf("cluster: the lease of %q has this session, but the members of cluster %q that the coordinator reads lack it: give the coordinator the table of the lease, unless the node ID was freed just now", n.cfg.Name, n.cfg.Cluster)
}

// expire makes the backend delete old records, at most once per expireEvery, or after a
// failure once per tellEvery. Only the member with the lowest session does this.
func (n *Node) expire(ctx context.Context) {
	v, _ := n.view()
	now := n.clock.Monotonic()
	if first, _ := LowestSession(v.state); !first.Same(v.self) || n.expired != 0 && now-n.expired < expireEvery {
		return
	}
	if err := n.cfg.Coordinator.Expire(ctx, n.cfg.Cluster, max(forgetAfter, 2*n.cfg.Timeout)); err != nil {
		n.cfg.Logger.Warn("cluster expire failed", "cluster", n.cfg.Cluster, "error", err)
		// Invariant (liveness): a run that failed is not repeated at each heartbeat, because it reads
		// all records.
		n.expired = now - expireEvery + tellEvery
		return
	}
	n.expired = now
}

// view returns the current view, and a channel that the next heartbeat or the next session
// closes.
func (n *Node) view() (view, <-chan struct{}) {
	if n.absent() {
		return view{}, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now, n.turned
}

// State returns the members that were alive as of this node's last heartbeat.
func (n *Node) State() State {
	v, _ := n.view()
	return v.state
}

// Self returns this node's own session.
func (n *Node) Self() Member {
	v, _ := n.view()
	return v.self.clone()
}

// Done returns a channel that is closed when the node no longer takes part; Err then
// returns the reason.
func (n *Node) Done() <-chan struct{} {
	if n.absent() {
		return ended
	}
	return n.done
}

// Err returns nil while the node takes part, and then an error that wraps ErrListener,
// ErrLease or ErrClosed and describes the reason.
func (n *Node) Err() error {
	if n.absent() {
		return errAbsent
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
