package cluster

// Elector chooses a leader from a state. It must be a pure function, so that members with
// the same state choose the same leader. Members with different states may choose
// different leaders: see the package comment.
type Elector func(State) (Member, bool)

// LowestSession elects the member whose session began first. A leader remains the leader
// until it leaves. A member that was silent for too long comes back as the youngest.
func LowestSession(s State) (Member, bool) {
	if len(s.members) == 0 {
		return Member{}, false
	}
	return s.filled(s.members[0]), true
}

// Leader returns the leader in this node's current state, or false if no leader is known.
// A node that would elect itself leads only if its session has been recorded for one
// time-out, its last heartbeat and its last read of the others are no older than one
// time-out, and its agent, if it has one, holds the lease. Once its session has been
// recorded for one time-out, every other session has seen it, or has ended. For one
// time-out after the first start of a fleet, no node leads, although Leader on the other
// nodes returns the lowest session at once. So a process that receives work for the leader
// should check that it leads.
func (n *Node) Leader() (Member, bool) {
	if n.absent() {
		return Member{}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leaderLocked()
}

func (n *Node) leaderLocked() (Member, bool) {
	if n.seenBy != n.now.self.SessionID {
		return Member{}, false // the state was returned to an earlier session
	}
	m, ok := n.cfg.Elect(n.now.state)
	if !ok || m.Same(n.now.self) && !n.mayLead() {
		return Member{}, false
	}
	return m, true
}

// mayLead reports whether this node may believe that it leads. A node that was recorded
// after this node's last read began waits for one time-out before it leads. By then this
// node has read again, or no longer believes that it leads.
//
// A node does not lead without its lease: others drop it as soon as they read that its
// node ID is free, and elect the next leader.
func (n *Node) mayLead() bool {
	if n.cfg.Agent != nil {
		if _, err := n.cfg.Agent.Lease(); err != nil {
			return false
		}
	}
	now := n.clock.Monotonic()
	return n.err == nil && n.times.recorded && now-n.times.since > n.cfg.Timeout &&
		now-n.times.looked <= n.trust() && n.silenceLocked() <= n.trust()
}
