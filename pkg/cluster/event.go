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
	// Previous is the last state that the same listener received, or the zero State in
	// the listener's first event. States between Previous and State were skipped.
	Previous State
	// Leader is the result of Node.Leader. Its SessionID is empty if no leader is known.
	// It may differ from the last event's Leader even if State does not.
	Leader Member
}

// Changes yields the newest state at once, and then the newest state each time that the
// state or the leader has changed. It skips states that came and went while the caller
// was busy. It ends when ctx ends (a nil ctx never does), when the node ends, or when the
// caller breaks. It may be called any number of times; each call has its own Previous.
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
			// The first state is always delivered, since it is never empty: its observer
			// is in it.
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
