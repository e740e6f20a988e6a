package cluster

import (
	"context"
	"iter"
	"time"
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
	// It may differ from the last event's Leader even if State does not, for example when
	// this node no longer leads because its heartbeats fail.
	Leader Member
}

// Changes yields the newest state at once, and then the newest state each time that the
// state or the leader has changed. If this node stops leading between two heartbeats,
// a state is yielded within a tenth of the time-out. Changes skips states that came and went
// while the caller was busy. It ends when ctx ends (a nil ctx never does), when the node
// ends, or when the caller breaks. It may be called any number of times; each call has its
// own Previous.
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
			e, next, again := n.event()
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
			case <-again:
			case <-ctx.Done():
			case <-n.done:
			}
		}
	}
}

// event returns the current event, and a channel that the next heartbeat or the next
// session closes. If this node leads, event also returns a channel that yields when to check
// whether it still does: its trust may end, or its lease be lost, between two heartbeats.
func (n *Node) event() (e Event, next <-chan struct{}, again <-chan time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	leader, leads := n.leaderLocked()
	self := n.now.self
	if leads && leader.Same(self) {
		left := n.trust() - max(n.silenceLocked(), n.clock.Monotonic()-n.times.looked)
		again = time.After(min(max(left, 0)+1, n.cfg.Timeout/10))
	}
	return Event{Cluster: self.Cluster, Name: self.Name, SessionID: self.SessionID, State: n.now.state, Leader: leader}, n.turned, again
}
