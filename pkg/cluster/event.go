package cluster

import (
	"context"
	"iter"
)

// Event tells one listener of a change.
type Event struct {
	Cluster string
	// NodeID and SessionID are the observer's.
	NodeID, SessionID string
	// State is the newest.
	State State
	// Previous is the one that the same listener was told before, the zero State
	// at first. States in between were skipped.
	Previous State
}

// Changes gives the newest state at once, and then each time that it differs from
// the one before, skipping what came and went while the caller was busy. It ends
// with ctx, with the node, or when the caller breaks. It may be called any number
// of times; each has a Previous of its own.
func (n *Node) Changes(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		var previous State
		for {
			v, next := n.view()
			if ctx.Err() != nil || n.Err() != nil {
				return
			}
			// No state is empty, for its observer is in it: the first is always told.
			if !v.state.Equal(previous) {
				e := Event{Cluster: v.self.Cluster, NodeID: v.self.NodeID, SessionID: v.self.SessionID, State: v.state, Previous: previous}
				if !yield(e) {
					return
				}
				previous = v.state
				continue
			}
			select {
			case <-next:
			case <-ctx.Done():
			case <-n.done:
			}
		}
	}
}
