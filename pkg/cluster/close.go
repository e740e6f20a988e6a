package cluster

import (
	"errors"
	"time"

	"github.com/nodelease/nodelease/internal/siblings"
	gate "github.com/nodelease/nodelease/internal/text"
)

// end makes the node stop taking part and ends the context of its listeners. Only the
// first call has an effect. With a lease, an immediate renewal removes the session from
// the lease, which continues; without a lease, members drop the session after the
// time-out. end does not hold the lock while it logs, since a Logger that blocks must not
// block Err.
func (n *Node) end(err error) {
	session, first, unmarked := n.finish(err)
	if !first {
		return
	}
	if unmarked != nil {
		n.cfg.Logger.Warn("cluster mark not set", "cluster", n.cfg.Cluster, "name", n.cfg.Name, "error", unmarked)
	}
	if !errors.Is(err, ErrClosed) {
		n.cfg.Logger.Error("cluster node is down", "cluster", n.cfg.Cluster, "name", n.cfg.Name, "session_id", gate.Session(session), "error", err)
	}
}

// finish does what end does, without logging. It returns the session that ended, whether
// this was the first call, and the reason if the lease could not be marked.
func (n *Node) finish(err error) (session string, first bool, unmarked error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return "", false, nil
	}
	n.err = err
	if n.cfg.Agent != nil {
		siblings.BeforeResume(n.cfg.Agent, nil)
		// Metadata without these entries always fits. So the others see that a failed
		// node has ended, however much of the 512 bytes its metadata uses.
		unmarked = n.cfg.Agent.SetMetadata(map[string]string{metaNode: "", metaSession: ""})
		if !errors.Is(err, ErrClosed) {
			n.cfg.Agent.RenewNow()
		}
	}
	// Invariant: from here on, another node may take part with the same agent. So nothing of its
	// session is removed from the lease any more.
	close(n.done)
	n.cancel()
	return n.now.self.SessionID, true, unmarked
}

// Close makes the node stop taking part, and waits up to 1 s until heartbeats and
// listeners have ended. It may be called several times, and from a listener. The lease
// continues: close the agent after the node. With a lease, the other nodes see the end at
// their next heartbeats; without a lease, they see it after the time-out. Close returns
// an error only for a nil or zero Node.
func (n *Node) Close() error {
	if n.absent() {
		return errAbsent
	}
	n.end(ErrClosed)
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
