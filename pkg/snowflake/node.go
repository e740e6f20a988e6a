package snowflake

import "math"

// Node is what a lease gives a generator. *lease.Agent is one, and so is
// *Timeline.
type Node interface {
	// Timeline is the same for every call: all generators on one node share it.
	Timeline() *Timeline
}

// Fixed is a node that has nodeID without a lease, for ever. Nobody checks that
// no other process, and no other Fixed in this one, has the same number: that is
// up to you. The clock must not go back between two runs of the process.
// A number that does not fit is New's error.
func Fixed(nodeID int) Node {
	t := NewTimeline(nil)
	err := t.Bind(Span{NodeID: nodeID, Until: Forever(), Deadline: math.MaxInt64})
	return fixed{t, err}
}

type fixed struct {
	t   *Timeline
	err error
}

func (f fixed) Timeline() *Timeline { return f.t }
