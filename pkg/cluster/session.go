package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Names of entries in the metadata of a node's lease. A lease whose holder no longer
// takes part has neither entry.
const (
	metaNode    = "node"
	metaSession = "session_id"
)

// times are readings of the node's clock.
type times struct {
	heard    time.Duration // when the last answered heartbeat was sent, or when the session began
	looked   time.Duration // when the read that returned the current state began
	recorded bool          // whether the backend has the session
	since    time.Duration // when this node first knew that the backend has the session
}

// trust returns how long after its last heartbeat a session may assume that all other
// nodes still consider it alive. They drop the session after Timeout, by clocks that may
// be ahead of this node's clock. With a lease, the lease's Guard, which silence includes,
// covers the difference of the clocks. Without a lease, trust holds back a tenth of
// Timeout.
func (n *Node) trust() time.Duration {
	if n.cfg.Agent != nil {
		return n.cfg.Timeout
	}
	return n.cfg.Timeout - n.cfg.Timeout/10
}

// silence returns the time since the last successful heartbeat was sent.
func (n *Node) silence() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silenceLocked()
}

func (n *Node) silenceLocked() time.Duration {
	return n.clock.Monotonic() - max(n.times.heard, n.renewalSent())
}

// renewalSent returns when the last confirmed renewal was sent, minus the lease's
// Guard.
func (n *Node) renewalSent() time.Duration {
	if n.cfg.Agent == nil || n.ttl == 0 {
		return 0
	}
	return n.clock.Monotonic() - siblings.Unrenewed(n.cfg.Agent)
}

// beforeResume begins a new session if others may have dropped the current one by now. The
// agent calls it before it sends the renewal that would end a silence, because a process
// that was frozen must not come back with the same session. The agent also calls it before
// it claims another node ID after a loss, because others drop the session as soon as they
// read that the previous node ID is free. If it fails, the next turn returns an error.
func (n *Node) beforeResume() {
	if _, err := n.cfg.Agent.Lease(); errors.Is(err, lease.ErrLost) {
		_ = n.rotate()
		return
	}
	_ = n.rotateIfSilent()
}

// rotateIfSilent begins a new session if others may have dropped the current one by now.
func (n *Node) rotateIfSilent() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil || n.silenceLocked() <= n.trust() {
		return nil
	}
	return n.rotateLocked()
}

// rotate begins a new session, unless the node has ended. The lease of a node that has
// ended has no session: an answer that comes late must not add one again.
func (n *Node) rotate() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return nil
	}
	return n.rotateLocked()
}

func (n *Node) rotateLocked() error {
	// The new session has not been silent, is not recorded yet and has not read the
	// others.
	n.times = times{heard: n.clock.Monotonic()}
	n.now.self.SessionID = newSession()
	// No leader is known to the new session, which Changes reports.
	close(n.turned)
	n.turned = make(chan struct{})
	if n.cfg.Agent == nil {
		return nil
	}
	err := n.cfg.Agent.SetMetadata(map[string]string{metaNode: n.cfg.Name, metaSession: n.now.self.SessionID})
	switch {
	case err != nil && n.cfg.Agent.Err() != nil:
		return fmt.Errorf("%w: %w", ErrLease, err)
	case err != nil: // the lease is held, but its metadata has no room
		return fmt.Errorf("cluster: the name %q and the session, %d bytes of metadata, do not fit with the agent's: %w", n.cfg.Name, len(metaNode)+len(n.cfg.Name)+len(metaSession)+len(n.now.self.SessionID), err)
	}
	return nil
}

// renewal takes over the data of the lease. It returns an error unless the lease is held
// and contains this session in its metadata, since a node must be recorded before it
// reads the others.
func (n *Node) renewal() error {
	n.renewed = n.cfg.Agent.Renewed() // before the read, so that no renewal is missed
	l, err := n.cfg.Agent.Lease()
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return n.err
	}
	before := l.Predecessor()
	n.clean = before != nil && before.Ended == protocol.EndReleased && before.Version == l.Version-1
	n.ttl = l.TTL
	other := n.now.self.NodeID != NoNodeID && (n.now.self.NodeID != l.NodeID || n.now.self.Version != l.Version)
	n.now.self.NodeID, n.now.self.Version = l.NodeID, l.Version
	n.now.self.Metadata = said(l.Metadata)
	// If more than the time-out passed between two renewals, the node was silent between
	// them, whenever in this time the process was frozen. A different node ID also begins
	// a new incarnation, unless beforeResume has begun it: others may have read the session
	// in the claim.
	sent := n.renewalSent()
	silent := n.times.recorded && sent-n.times.heard > n.trust()
	begun := !n.times.recorded && l.Metadata[metaSession] == n.now.self.SessionID
	if silent || other && !begun {
		if err := n.rotateLocked(); err != nil {
			return err
		}
	}
	if l.Metadata[metaSession] != n.now.self.SessionID {
		// Invariant (liveness): this asks for one renewal only. If something else has removed the
		// session from the lease, further ones would lack it, too, and follow each other at once.
		if n.nudged != n.now.self.SessionID {
			n.nudged = n.now.self.SessionID
			n.cfg.Agent.RenewNow()
		}
		return errUnrecorded
	}
	n.times.heard = max(n.times.heard, sent)
	return nil
}
