package cluster

import (
	"net/http"

	gate "github.com/nodelease/nodelease/internal/text"
)

// ServeHTTP answers 200 and UP while the node takes part, 503 and DOWN, with the
// reason, once it has stopped: after a fatal listener, the loss of its lease, or Close.
// An outage of the backend leaves it UP. It covers only the membership; the lease has a
// separate check. The answer has the last eight characters of the session.
func (n *Node) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	v, _ := n.view()
	h := struct {
		Status    string `json:"status"`
		Cluster   string `json:"cluster"`
		Name      string `json:"name"`
		SessionID string `json:"session_id"`
		Members   int    `json:"members"`
		Error     string `json:"error,omitempty"`
	}{"UP", v.self.Cluster, v.self.Name, gate.Session(v.self.SessionID), v.state.Len(), ""}
	code := http.StatusOK
	if err := n.Err(); err != nil {
		h.Status, h.Error, code = "DOWN", err.Error(), http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = gate.WriteJSON(w, h) // the client may be gone
}
