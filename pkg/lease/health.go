package lease

import (
	"encoding/json"
	"net/http"
)

// health is the body of both checks.
type health struct {
	Status  string `json:"status"` // held, suspended, lost, closed
	Pool    string `json:"pool"`
	NodeID  int    `json:"node_id"`
	Version int64  `json:"version"`
	LeftMS  int64  `json:"left_ms"` // until the deadline; negative when it has passed
	Error   string `json:"error,omitempty"`
}

// health tells how the lease is, whether the process should live on, and whether
// it is ready for work that needs the lease.
func (a *Agent) health() (h health, live, ready bool) {
	_, err := a.Lease()
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.term.deadline - a.clock.Monotonic()
	h = health{Pool: a.cfg.Pool, NodeID: a.term.lease.NodeID, Version: a.term.lease.Version, LeftMS: left.Milliseconds()}
	switch {
	case a.closing:
		h.Status = "closed"
	case a.over != nil:
		// Between two numbers (Reacquire) there is nothing that a restart mends.
		h.Status, live = "lost", a.err == nil
	case err != nil:
		h.Status, live = "suspended", true
	default:
		h.Status, live, ready = "held", true, true
	}
	if err != nil {
		h.Error = err.Error()
	}
	return h, live, ready
}

// ServeHTTP answers whether the process should live on: 200 while the lease is
// held or suspended, 503 once it is lost or closed, with JSON that says why. It
// is for container and load balancer checks, which replace what fails them: an
// outage of DynamoDB suspends leases and must restart no fleet.
func (a *Agent) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h, live, _ := a.health()
	h.write(w, live)
}

// Ready answers whether work that needs the lease can be done now: 503 also
// while it is suspended. For routing, never for a check that restarts.
func (a *Agent) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h, _, ready := a.health()
		h.write(w, ready)
	})
}

func (h health) write(w http.ResponseWriter, ok bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(h) // the client may be gone
}
