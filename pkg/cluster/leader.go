package cluster

// Elector chooses a leader from a state: a pure function, so that members with
// the same state choose the same one. Members with different states may choose
// differently, and then there are two leaders, or a leader who has gone: see the
// package comment for what to do where that matters.
type Elector func(State) (Member, bool)

// LowestSession elects the member whose session began first. A leader stays one
// until it goes, and one that was silent for too long comes back as the youngest.
func LowestSession(s State) (Member, bool) {
	for m := range s.Members() {
		return m, true
	}
	return Member{}, false
}

// Leader is who leads in this node's present state.
func (n *Node) Leader() (Member, bool) { return n.cfg.Elect(n.State()) }
