package cluster

import (
	"context"
	"iter"
)

// Event reports a change to one listener.
type Event struct {
	Cluster string
	// Name and SessionID are those of the node that observed the change.
	Name, SessionID string
	// State is the newest state.
	State State
	// Previous is the last state that the same listener received, the zero State
	// at first. States in between were skipped.
	Previous State
	// Leader is the result of Node.Leader; without a SessionID there is no known
	// leader. It may differ from the last event's Leader even if State does not.
	Leader Member
}

// Changes yields the newest state at once, and then each time that it, or the
// leader, differs from the previous one, skipping states that came and went while
// the caller was busy. It ends with ctx (a nil one never ends), with the node, or when
// the caller breaks.
// It may be called any number of times; each call has its own Previous.
func (n *Node) Changes(ctx context.Context) iter.Seq[Event] {
	if ctx == nil {
		ctx = context.Background()
	}
	return func(yield func(Event) bool) {
		if n.absent() {
			return
		}
		var previous Event
		for {
			e, next := n.event()
			if ctx.Err() != nil || n.Err() != nil {
				return
			}
			// A state is never empty, since its observer is in it: the first is always
			// delivered.
			if !e.State.Equal(previous.State) || e.Leader.SessionID != previous.Leader.SessionID {
				e.Previous = previous.State
				if !yield(e) {
					return
				}
				previous = e
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

// event returns the current event, and a channel that the next heartbeat closes.
func (n *Node) event() (Event, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	leader, _ := n.leaderLocked()
	self := n.now.self
	return Event{Cluster: self.Cluster, Name: self.Name, SessionID: self.SessionID, State: n.now.state, Leader: leader}, n.turned
}
