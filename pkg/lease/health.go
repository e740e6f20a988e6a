package lease

import (
	"net/http"

	"github.com/nodelease/nodelease/internal/text"
)

// health is the JSON body that ServeHTTP and Ready answer with.
type health struct {
	Status  string `json:"status"` // held, suspended, lost, closed
	Pool    string `json:"pool"`
	NodeID  int    `json:"node_id"`
	Version int64  `json:"version"`
	LeftMS  int64  `json:"left_ms"` // until the deadline; negative when it has passed
	Error   string `json:"error,omitempty"`
}

// health returns the state of the lease, whether the process should keep running, whether
// the lease may be relied on, and whether IDs can be made.
func (a *Agent) health() (h health, live, held, ids bool) {
	if a.absent() {
		return health{Status: "closed", NodeID: wholePool, Error: errNoAgent.Error()}, false, false, false
	}
	_, err := a.Lease()
	noIDs := a.timeline.Check()
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.term.Deadline - a.clock.Monotonic()
	if a.napping != nil {
		left = a.leftNow()
	}
	h = health{Pool: a.cfg.Pool, NodeID: a.term.Lease.NodeID, Version: a.term.Lease.Version, LeftMS: left.Milliseconds()}
	switch {
	case a.closing:
		h.Status = "closed"
	case a.over != nil:
		// With Reacquire, the agent is about to claim another node ID, so restarting the
		// process would not help.
		h.Status, live = "lost", a.err == nil
	case err != nil:
		h.Status, live = "suspended", true
	default:
		h.Status, live, held = "held", true, true
	}
	for _, err := range []error{noIDs, err} { // the lease's error comes last and so takes precedence: it is more specific
		if err != nil {
			h.Error = err.Error()
		}
	}
	return h, live, held, noIDs == nil
}

// ServeHTTP reports whether the process should keep running: it answers 200 while the
// lease is held or suspended (with Reacquire, also while the agent claims another node ID
// after a loss), and 503 once the agent has ended or Close was called, with the reason in
// JSON. Use it for checks by a container platform or a load balancer, which replace a
// task that fails them. An outage of DynamoDB suspends leases, and must not cause the
// restart of a whole fleet.
func (a *Agent) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h, live, _, _ := a.health()
	h.write(w, live)
}

// Ready returns a handler that reports whether the process can make IDs now: 503 while
// making one would fail, because the lease is lost, its reservation is used up, or the
// clock was set back; otherwise 200, even if the lease is suspended but still has reserved
// milliseconds (Config.Reserve). With ?need=lease in the URL it reports whether the lease
// may be relied on. Use it for routing, never for a check that restarts the process.
func (a *Agent) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, _, ready, ids := a.health()
		if r == nil || r.URL == nil || r.URL.Query().Get("need") != "lease" {
			ready = ids
		}
		h.write(w, ready)
	})
}

func (h health) write(w http.ResponseWriter, ok bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = text.WriteJSON(w, h) // the client may be gone
}
