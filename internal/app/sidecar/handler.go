package sidecar

import (
	"fmt"
	"net/http"
	"time"

	"github.com/nodelease/nodelease/internal/local"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// handler answers the requests.
type handler struct {
	agent lease.Provider
	ids   *snowflake.Generator
	queue *queue
	who   local.Guard
}

// Handler returns HandlerFor with a guard that admits programs on this machine.
func Handler(agent lease.Provider, ids *snowflake.Generator, metrics *Metrics) http.Handler {
	return HandlerFor(local.Guard{}, agent, ids, metrics)
}

// HandlerFor returns a handler for the requests of the contract. who decides which requests
// are admitted. ids is the agent's generator; metrics answers /metrics, and counts the
// other requests.
func HandlerFor(who local.Guard, agent lease.Provider, ids *snowflake.Generator, metrics *Metrics) http.Handler {
	h := &handler{agent: agent, ids: ids, queue: newQueue(ids.Layout()), who: who}
	mux := http.NewServeMux()
	for _, route := range []struct {
		method, path string
		handler      http.Handler
	}{
		{http.MethodGet, "/v1/node", http.HandlerFunc(h.node)},
		{http.MethodGet, "/v1/lease", http.HandlerFunc(h.lease)},
		{http.MethodPost, "/v1/ids", http.HandlerFunc(h.makeIDs)},
		{http.MethodPost, "/v1/blocks", &blocks{handler: h, began: time.Now()}},
		{http.MethodGet, "/livez", agent},
		{http.MethodGet, "/readyz", agent.Ready()},
		{http.MethodGet, "/metrics", metrics.handler()},
	} {
		answer := metrics.count(route.path, route.handler)
		mux.Handle(route.method+" "+route.path, answer) // GET matches HEAD too
		mux.Handle(route.path, metrics.count(route.path, only(route.method)))
	}
	mux.Handle("/", metrics.count("other", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem{http.StatusNotFound, "not_found", fmt.Sprintf("there is no %.100q", r.URL.Path),
			"use /v1/node, /v1/lease, /v1/ids, /v1/blocks, /livez, /readyz or /metrics", 0}.write(w)
	})))
	return h.guard(mux)
}

// only returns a handler that refuses requests, and names the one method that is allowed.
func only(method string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		problem{http.StatusMethodNotAllowed, "method_not_allowed", fmt.Sprintf("%s %s", r.Method, r.URL.Path), "use " + method, 0}.write(w)
	})
}

// nodeAnswer describes the node ID.
type nodeAnswer struct {
	Pool    string `json:"pool"`
	NodeID  int    `json:"node_id"`
	Version int64  `json:"version"`
	// IDs is the type of IDs in JSON: "string", or "number" where all of them are below 2^53.
	IDs string `json:"ids"`
	// Fixed is true if the node ID is not leased: version is then not a fencing token.
	Fixed  bool         `json:"fixed,omitempty"`
	Layout layoutAnswer `json:"layout"`
}

// layoutAnswer has the fields that a reader needs to take an ID apart.
type layoutAnswer struct {
	EpochMS      int64 `json:"epoch_ms"`
	TickMS       int64 `json:"tick_ms"`
	TimeBits     uint8 `json:"time_bits"`
	NodeBits     uint8 `json:"node_bits"`
	SequenceBits uint8 `json:"sequence_bits"`
	NodeLast     bool  `json:"node_last"`
}

func answerOf(l snowflake.Layout) layoutAnswer {
	return layoutAnswer{l.Epoch.UnixMilli(), l.Tick.Milliseconds(), l.TimeBits, l.NodeBits, l.SequenceBits, l.NodeLast}
}

func (h *handler) node(w http.ResponseWriter, _ *http.Request) {
	l, err := h.agent.Lease()
	if err != nil {
		h.problemOf(err).write(w)
		return
	}
	layout := h.ids.Layout()
	answer := nodeAnswer{
		Pool: l.Pool, NodeID: l.NodeID, Version: l.Version, IDs: "string", Fixed: !l.Fenced(), Layout: answerOf(layout),
	}
	if layout.JavaScriptSafe() {
		answer.IDs = "number"
	}
	writeJSON(w, http.StatusOK, answer)
}

// leaseAnswer describes the lease. It omits the session that holds it, which is secret:
// anyone who knows the session could release the node ID.
type leaseAnswer struct {
	Pool      string            `json:"pool"`
	NodeID    int               `json:"node_id"`
	Version   int64             `json:"version"`
	Task      string            `json:"task"`
	LeftMS    int64             `json:"left_ms"` // until the deadline, now
	ExpiresAt time.Time         `json:"expires_at"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

func (h *handler) lease(w http.ResponseWriter, _ *http.Request) {
	// The remaining time is read before the lease. A pause in between makes the time too
	// large, but if the lease has ended by then, Lease returns an error.
	agent, leased := h.agent.(interface{ Left() time.Duration })
	if !leased {
		problem{http.StatusNotFound, "fixed", fmt.Sprintf("node %d is fixed and has no lease", h.agent.NodeID()),
			"do not rely on being its only user; for an exclusive node ID start the sidecar with --table and --pool", 0}.write(w)
		return
	}
	left := agent.Left()
	l, err := h.agent.Lease()
	if err != nil {
		h.problemOf(err).write(w)
		return
	}
	writeJSON(w, http.StatusOK, leaseAnswer{l.Pool, l.NodeID, l.Version, l.Task, max(left.Milliseconds(), 0), l.ExpiresAt.UTC(), l.Metadata})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = text.WriteJSON(w, v) // fails if the client is gone
}
