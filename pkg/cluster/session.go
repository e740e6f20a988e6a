package cluster

import (
	"fmt"
	"time"
)

// What a node with a lease says of itself in the lease's metadata.
const (
	metaNode    = "node"
	metaSession = "session_id"
	metaLeft    = "has_left" // it takes part no more, though the lease goes on
)

// silence is how long ago the last heartbeat was.
func (n *Node) silence() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Since(n.confirmed)
}

// rotateIfSilent begins a new session if the others have dropped this one by now.
// The agent asks for it too, before it sends the renewal that would end a silence:
// a process that was frozen must not come back as who it was.
func (n *Node) rotateIfSilent() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil || time.Since(n.confirmed) <= n.cfg.Timeout {
		return nil
	}
	n.confirmed = time.Now() // of the new session, which has been silent for no time
	return n.rotateLocked()
}

// rotate begins a new session.
func (n *Node) rotate() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rotateLocked()
}

func (n *Node) rotateLocked() error {
	n.now.self.SessionID = newSession()
	if n.cfg.Agent == nil {
		return nil
	}
	err := n.cfg.Agent.SetMetadata(map[string]string{metaNode: n.cfg.NodeID, metaSession: n.now.self.SessionID, metaLeft: ""})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLease, err)
	}
	return nil
}

// renewal takes in what the lease says, if it is held.
func (n *Node) renewal() error {
	n.renewed = n.cfg.Agent.Renewed() // before the look, so that none is missed
	l, err := n.cfg.Agent.Lease()
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.confirmed = time.Now()
	other := n.now.self.Number != NoNumber && (n.now.self.Number != l.NodeID || n.now.self.Version != l.Version)
	n.now.self.Number, n.now.self.Version = l.NodeID, l.Version
	n.now.self.Metadata = said(l.Metadata)
	n.mu.Unlock()
	if other { // another number is another incarnation
		if err := n.rotate(); err != nil {
			n.end(err)
			return err
		}
	}
	return nil
}
