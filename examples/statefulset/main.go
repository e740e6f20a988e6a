// Command statefulset generates IDs without a lease. Its node ID is the ordinal of a pod in a Kubernetes StatefulSet, or the argument of
// -node, which you must keep unique yourself. No lease fences the generator if something is wrong. So each call checks the clock, and fails
// while the clock is behind.
//
// The example also shows IDs of 53 bits for browsers, since JavaScript's numbers can hold them, and orders that are spread evenly over
// shards by their IDs.
//
//	POST /orders        {"id":129570590720449,"shard":1}
//	GET  /orders/{id}   {"id":129570590720449,"shard":1,"made":"2026-01-02T03:04:05Z"}
//	GET  /stats
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// shards is the number of shards in which orders are stored. The shard of an order is its ID modulo shards.
const shards = 16

func main() {
	log.SetFlags(0)
	number := flag.Int("node", -1, "the node ID, unique to this process; by default the ordinal in the host name")
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ids, err := generator(*number)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *listen, Handler: routes(ids), ReadHeaderTimeout: time.Second}
	log.Fatal(server.ListenAndServe())
}

func generator(number int) (*snowflake.Generator, error) {
	node, err := provider(number)
	if err != nil {
		return nil, err
	}
	if l, err := node.Lease(); err == nil && !l.Fenced() {
		log.Printf("node %d is fixed and not fenced: its clock must not go back between two runs", node.NodeID())
	}
	return snowflake.New(node, options()...)
}

// provider returns a fixed node. Programs that lease their node ID use a *lease.Agent instead; the rest is the same.
func provider(number int) (lease.Provider, error) {
	if number < 0 {
		return leasefixed.StatefulSet(snowflake.JS53())
	}
	return leasefixed.New(number, snowflake.JS53())
}

func options() []snowflake.Option {
	return []snowflake.Option{
		snowflake.WithLayout(snowflake.JS53()),
		snowflake.WithStrictWall(),
		snowflake.WithMaxBackward(0),
		// An order that is alone in its millisecond would always have the sequence number 0, and be on shard 0, unless the sequence began
		// at random.
		snowflake.WithRandomSequence(shards),
	}
}

type order struct {
	ID    snowflake.Number `json:"id"`
	Shard int              `json:"shard"`
	Made  time.Time        `json:"made,omitzero"`
}

func routes(ids *snowflake.Generator) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, _ *http.Request) {
		id, err := ids.TryNext() // TryNext does not make a client wait that can try again
		if err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(order{ID: snowflake.Number(id), Shard: int(id % shards)}) // the client may be gone
	})
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := snowflake.Parse(r.PathValue("id"))
		if err != nil {
			refuse(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(order{snowflake.Number(id), int(id % shards), snowflake.JS53().Decompose(id).Time})
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		s := ids.Stats()
		fmt.Fprintf(w, "%d IDs made, %d calls refused, %d steps of the clock, IDs are %v ahead of it\n", s.Issued, s.Refused, s.StepsBack+s.StepsForward, s.Borrow)
	})
	return mux
}

// refuse answers with an error, whose status shows whether another try may help.
func refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, snowflake.ErrSyntax):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, snowflake.ErrTimeOverflow): // permanently: see Layout.Expires
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default: // the millisecond is used up, or the clock went back and no ID can be made until it has caught up
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}
