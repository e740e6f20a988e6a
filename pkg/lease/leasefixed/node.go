// Package leasefixed provides node IDs without a lease, for processes whose node ID is
// assigned in another way, such as a StatefulSet's ordinal.
package leasefixed

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

var _ lease.Provider = (*Node)(nil)

// Node has a fixed node ID, without a lease, until it is closed. All of its methods are
// safe for concurrent use. Nothing checks that no other process has the same node ID;
// docs/guarantees.md lists the promises that do not hold without a lease. New returns a
// Node. A nil or zero Node behaves like a closed one, with the node ID -1.
type Node struct {
	nodeID   int
	timeline *snowflake.Timeline
	done     chan struct{}
	once     sync.Once
}

// New returns a Node with the node ID n, which is not leased. n is at least 0, and at
// most the highest node ID of the layout. The caller must ensure two conditions:
//
//   - no other process, and no other Node in this process, has the same node ID, and no
//     pool whose IDs have this layout leases the node ID;
//   - when the process starts, its wall clock is past the time of the last ID that an
//     earlier run made. A clock that never steps back meets this condition. After a step
//     back, do not restart the process before the clock has caught up.
//
// To keep the second condition simple, no ID is ahead of the wall clock:
// snowflake.WithMaxBackward is treated as 0. The layout is required, since no pool
// provides it; all processes whose IDs must differ must use the same layout. New returns
// an error if the layout is invalid or n does not fit the layout. A warning that no lease
// protects the node ID is logged once, to slog.Default.
func New(n int, layout snowflake.Layout) (*Node, error) { return newOn(nil, n, layout) }

func newOn(c lease.Clock, n int, layout snowflake.Layout) (*Node, error) {
	if err := layout.Validate(); err != nil {
		return nil, fmt.Errorf("leasefixed: New needs the layout of the IDs, such as snowflake.Default(): %w", err)
	}
	if n < 0 || n >= layout.Nodes() {
		return nil, fmt.Errorf("leasefixed: node ID %d does not fit the layout, which has %d node bits: use 0 to %d", n, layout.NodeBits, layout.Nodes()-1)
	}
	f := &Node{nodeID: n, timeline: snowflake.NewTimeline(c), done: make(chan struct{})}
	f.timeline.DecideLayout(func(want *snowflake.Layout) (snowflake.Layout, error) {
		if want != nil && protocol.LayoutOf(*want) != protocol.LayoutOf(layout) { // epochs may have different time zones
			return layout, fmt.Errorf("leasefixed: fixed node %d has the layout %v, not %v: use one layout for a node", n, layout, *want)
		}
		return layout, nil
	})
	err := f.timeline.Bind(snowflake.Span{NodeID: n, Nodes: layout.Nodes(), Until: snowflake.Forever(), Deadline: math.MaxInt64, Unrecorded: true})
	if err != nil {
		return nil, fmt.Errorf("leasefixed: %w", err)
	}
	slog.Warn("leasefixed: the node ID is fixed: nothing keeps another process from having it, too", "node_id", n, "status", statusFixed)
	return f, nil
}

// absent reports whether f is nil or zero: New did not create it.
func (f *Node) absent() bool { return f == nil || f.done == nil }

var (
	errAbsent = fmt.Errorf("%w: this Node is nil or zero: leasefixed.New returns one", lease.ErrClosed)
	ended     = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
)

// NodeID returns the node ID, from 0.
func (f *Node) NodeID() int {
	if f.absent() {
		return -1
	}
	return f.nodeID
}

// Timeline returns the timeline from which generators take their timestamps. The method
// makes the node a [snowflake.Node].
func (f *Node) Timeline() *snowflake.Timeline {
	if f.absent() {
		return nil
	}
	return f.timeline
}

// Lease returns the node ID with version 0, which is not a fencing token: Lease.Fenced is
// false, and no resource can refuse a process that was replaced. The error is ErrClosed
// after Close, and ErrLost on a machine that was restored from a snapshot.
func (f *Node) Lease() (lease.Lease, error) {
	if err := f.Err(); err != nil {
		return lease.Lease{}, err
	}
	if f.timeline.Copied() {
		return lease.Lease{}, fmt.Errorf("%w: this machine was restored from a snapshot, and fixed node %d may be a copy's as well", lease.ErrLost, f.nodeID)
	}
	return lease.Lease{NodeID: f.nodeID}, nil
}

// Done returns a channel that Close closes.
func (f *Node) Done() <-chan struct{} {
	if f.absent() {
		return ended
	}
	return f.done
}

// Err returns nil until Close is called, and then ErrClosed.
func (f *Node) Err() error {
	if f.absent() {
		return errAbsent
	}
	select {
	case <-f.done:
		return lease.ErrClosed
	default:
		return nil
	}
}

// Close ends ID making. It returns nil, and may be called again.
func (f *Node) Close() error {
	if f.absent() {
		return errAbsent
	}
	f.once.Do(func() {
		f.timeline.Close()
		close(f.done)
	})
	return nil
}

// statusFixed is the status of a node ID without a lease in health checks and logs.
const statusFixed = "fixed"

// ServeHTTP answers 200 with the status "fixed" in JSON. It answers 503 after Close, and
// on a machine that was restored from a snapshot.
func (f *Node) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, err := f.Lease()
	f.answer(w, err)
}

// Ready returns a handler that reports whether the process can make IDs now: 503 while
// the clock is behind, and after Close. With ?need=lease in the URL, the handler always
// answers 503, since there is no lease.
func (f *Node) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := f.Err()
		if err == nil {
			err = f.timeline.Check()
		}
		if r != nil && r.URL != nil && r.URL.Query().Get("need") == "lease" {
			err = fmt.Errorf("leasefixed: fixed node %d has no lease", f.NodeID())
		}
		f.answer(w, err)
	})
}

func (f *Node) answer(w http.ResponseWriter, err error) {
	h := struct {
		Status  string `json:"status"` // fixed, closed
		Pool    string `json:"pool"`   // empty: the node ID belongs to no pool
		NodeID  int    `json:"node_id"`
		Version int64  `json:"version"` // 0: there is no fencing token
		Error   string `json:"error,omitempty"`
	}{Status: statusFixed, NodeID: f.NodeID()}
	if f.Err() != nil {
		h.Status = "closed"
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		h.Error = err.Error()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = text.WriteJSON(w, h) // the client may be gone
}
