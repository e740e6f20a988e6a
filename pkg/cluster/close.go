package cluster

import (
	"errors"
	"time"

	gate "github.com/nodelease/nodelease/internal/text"
)

// end stops taking part, once: the context of listeners ends with it. With a lease, an
// immediate renewal removes the session from the lease, which continues; without one,
// members drop the session after the time-out. The log is written without the lock: a
// blocking sink must not block Err.
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

// finish is end without the log. It returns the session that ended, whether this was the
// first call, and the reason if the lease could not be marked.
func (n *Node) finish(err error) (session string, first bool, unmarked error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return "", false, nil
	}
	n.err = err
	close(n.done)
	n.cancel()
	if n.cfg.Agent != nil {
		n.cfg.Agent.BeforeResume(nil)
		// Removing names needs no room: a failed node is gone for the others,
		// however much of the 512 bytes its metadata uses.
		unmarked = n.cfg.Agent.SetMetadata(map[string]string{metaNode: "", metaSession: ""})
		if !errors.Is(err, ErrClosed) {
			n.cfg.Agent.RenewNow()
		}
	}
	return n.now.self.SessionID, true, unmarked
}

// Close stops taking part and waits until heartbeats and listeners have ended,
// for listeners up to 1 s. It may be called again, and from a listener. The lease
// continues: close the agent after the node. Others see the end at their next
// heartbeats if there is a lease, and after the time-out if there is none. It
// returns nil, and an error only for a nil or zero Node.
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
