package main

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// most is the largest number of IDs of one request. In one millisecond, a node ID can make 4,096 IDs.
const most = 1000

func routes(agent *lease.Agent, ids *snowflake.Generator) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", agent)
	mux.Handle("GET /readyz", agent.Ready())
	mux.HandleFunc("POST /ids", func(w http.ResponseWriter, r *http.Request) {
		n := 1
		if text := r.URL.Query().Get("n"); text != "" {
			var err error
			if n, err = strconv.Atoi(text); err != nil || n < 1 || n > most {
				http.Error(w, "n is "+strconv.Quote(text)+": request 1 to "+strconv.Itoa(most)+" IDs", http.StatusBadRequest)
				return
			}
		}
		made := make([]snowflake.ID, n)
		if _, err := ids.NextN(r.Context(), made); err != nil {
			// The task is suspended, has lost its lease, or is draining. Another task may be able to answer now, or this one in a moment.
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer := struct {
			NodeID int            `json:"node_id"`
			IDs    []snowflake.ID `json:"ids"`
		}{agent.NodeID(), made}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client may be gone
	})
	return mux
}
