package cluster

import (
	"context"
	"errors"
	"net/http"
	"time"

	gate "github.com/nodelease/nodelease/internal/text"
)

// ServeHTTP answers 200 and UP while the node takes part. Once the node has stopped,
// because a listener failed, its lease was lost, or Close was called, it answers 503 and
// DOWN, with the reason. During an outage of the backend, the node stays UP. The check
// covers only the membership; the lease has a separate check. The answer contains only
// the last eight characters of the session.
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

// warned has the times of the last warnings, by their texts.
type warned map[string]time.Duration

// warn logs a warning that may be repeated with each heartbeat, at most once per tellEvery.
func (n *Node) warn(text string, err error) {
	now := n.clock.Monotonic()
	if last, before := n.warned[text]; before && now-last < tellEvery {
		return
	}
	if n.warned == nil {
		n.warned = warned{}
	}
	n.warned[text] = now
	n.cfg.Logger.Warn(text, "cluster", n.cfg.Cluster, "name", n.cfg.Name, "error", err)
}

// report logs the first of several failed heartbeats, then one per tellEvery, and the first
// heartbeat that succeeds again.
func (n *Node) report(ctx context.Context, err error) {
	switch now := n.clock.Monotonic(); {
	case ctx.Err() != nil || n.Err() != nil:
	case err != nil && !errors.Is(err, errUnrecorded):
		if n.failed++; n.failed == 1 || now-n.told >= tellEvery {
			n.cfg.Logger.Warn("cluster heartbeat failed", "cluster", n.cfg.Cluster, "name", n.cfg.Name, "failed", n.failed, "error", err)
			n.told = now
		}
	case err == nil && n.failed > 0:
		n.cfg.Logger.Info("cluster heartbeat succeeds again", "cluster", n.cfg.Cluster, "name", n.cfg.Name, "failed", n.failed)
		n.failed = 0
	}
}

// lookForNamesake warns if another session with this node's name is seen, or replaces this
// node's sessions, for longer than a predecessor of this node could be.
func (n *Node) lookForNamesake(s State, replaced bool) {
	self := n.Self()
	others := s.members
	if replaced {
		others = []Member{{Name: self.Name, SessionID: "unknown"}}
	}
	for _, m := range others {
		if m.Name != self.Name || m.Same(self) {
			continue
		}
		now := n.clock.Monotonic()
		n.met = now
		if n.namesake == 0 {
			n.namesake = now
		} else if now-n.namesake > 2*n.cfg.Timeout {
			n.cfg.Logger.Warn("two live processes have the same name: give each its own", "cluster", n.cfg.Cluster, "name", n.cfg.Name, "other_session", gate.Session(m.SessionID))
			n.namesake = now
		}
		return
	}
	// The other process may send no heartbeat between two of this node's heartbeats, so a
	// single heartbeat without a namesake proves nothing.
	if n.clock.Monotonic()-n.met > n.cfg.Timeout {
		n.namesake = 0
	}
}
