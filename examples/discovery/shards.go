package main

import (
	"fmt"
	"net/http"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
)

// shards lets a load balancer assign shards to this process. Owners register at an endpoint under the shard's key, so that callers find the
// owner that they need. A dead process owns nothing once its lease has expired.
//
//	PUT    /shards/7   this process owns it from now on
//	DELETE /shards/7   this process no longer owns it
//	GET    /shards/7   its owners: NODE_ID HOST:PORT, a line for each
func shards(directory *discovery.Directory, agent *lease.Agent, service string, here discovery.Address) http.Handler {
	offer := func(r *http.Request) discovery.Offer {
		return discovery.Endpoint{Name: service, Key: r.PathValue("key"), Address: here}
	}
	answer := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /shards/{key}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, directory.Register(r.Context(), agent, offer(r)))
	})
	mux.HandleFunc("DELETE /shards/{key}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, directory.Deregister(r.Context(), agent, offer(r)))
	})
	mux.HandleFunc("GET /shards/{key}", func(w http.ResponseWriter, r *http.Request) {
		owner, err := directory.Endpoint(service, r.PathValue("key"))
		if err != nil {
			answer(w, err)
			return
		}
		list, err := owner.Resolve(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		for _, i := range list {
			fmt.Fprintln(w, i.NodeID, i.HostPort())
		}
	})
	return mux
}
