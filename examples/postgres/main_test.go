package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
)

// In this test, the heartbeats are in memory and time is virtual. The code under test is the same as in
// production.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heartbeats := clustertest.NewMemory()
		var said [2]strings.Builder
		var nodes [2]*cluster.Node
		for i, m := range []member{{"orders-1", "b", "a", &said[0]}, {"orders-2", "a", "a", &said[1]}} {
			node, err := m.join(t.Context(), heartbeats)
			if err != nil {
				t.Fatal(err)
			}
			defer node.Close()
			nodes[i] = node
			if i == 0 {
				want(t, node, "/leader", http.StatusNotFound, "no member")
			}
		}
		time.Sleep(13 * time.Second) // virtual: a time-out, before which no member believes that it leads, and a heartbeat
		synctest.Wait()
		if !nodes[0].State().Equal(nodes[1].State()) {
			t.Errorf("two states: %v, %v", nodes[0].State(), nodes[1].State())
		}
		for _, node := range nodes {
			body := want(t, node, "/leader", http.StatusOK, "")
			var leader cluster.Member
			if err := json.Unmarshal([]byte(body), &leader); err != nil || leader.Name != "orders-2" || leader.NodeID != cluster.NoNodeID {
				t.Errorf("%s, %v", body, err)
			}
		}
		w := httptest.NewRecorder()
		routes(nodes[1]).ServeHTTP(w, httptest.NewRequest("PUT", "/standby", nil))
		if w.Code != http.StatusNoContent {
			t.Errorf("PUT /standby: got %d %s, want 204", w.Code, w.Body)
		}
		time.Sleep(5 * time.Second) // virtual: one heartbeat of each member
		synctest.Wait()
		for _, node := range nodes {
			want(t, node, "/leader", http.StatusNotFound, "no member")
		}
		if err := nodes[1].Close(); err != nil {
			t.Fatal(err)
		}
		want(t, nodes[1], "/leader", http.StatusServiceUnavailable, "leaving")
		time.Sleep(13 * time.Second) // virtual: the time-out, and a heartbeat
		synctest.Wait()
		want(t, nodes[0], "/cluster", http.StatusOK, `"members":1`)
		if got := said[0].String(); got != "orders/orders-1: orders-2 has joined\norders/orders-1: orders-2 has left\n" {
			t.Errorf("%q", got)
		}
	})
}

func want(t *testing.T, node *cluster.Node, path string, code int, text string) (body string) {
	t.Helper()
	w := httptest.NewRecorder()
	routes(node).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if body = w.Body.String(); w.Code != code || !strings.Contains(body, text) {
		t.Errorf("%s: %d %s", path, w.Code, body)
	}
	return body
}
