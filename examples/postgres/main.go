// Command postgres takes part in a cluster whose heartbeats are in PostgreSQL. It needs no leases and no AWS. The server's clock decides
// which members are live. The example shows three uses of a membership: a listener receives changes, the leader is chosen among the members
// of one zone, and a check reports whether this process still takes part.
//
//	DATABASE_URL=postgres://… go run ./examples/postgres -name orders-1 -zone a
//	GET    /leader    the leader, as this member sees it
//	PUT    /standby   this member no longer leads, for maintenance
//	DELETE /standby   it may lead again
//	GET    /cluster   the check
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/pgcoordinator"
)

func main() {
	log.SetFlags(0)
	m := member{out: os.Stdout}
	flag.StringVar(&m.name, "name", "", "a unique `name` that the member keeps across restarts")
	flag.StringVar(&m.zone, "zone", "a", "where this process runs")
	flag.StringVar(&m.leaders, "leaders", "a", "the `zone` whose members may lead, the database's; if empty, any")
	listen := flag.String("listen", "127.0.0.1:8080", "address of the checks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatalf("DATABASE_URL: %v", err)
	}
	defer db.Close()
	if _, err := db.Exec(ctx, pgcoordinator.Schema); err != nil {
		log.Fatalf("no PostgreSQL: %v: check DATABASE_URL, as postgres://user:password@127.0.0.1:5432/database", err)
	}
	if err := m.run(ctx, pgcoordinator.New(db), *listen); err != nil {
		log.Fatal(err)
	}
}

// member is one process of the cluster.
type member struct {
	name, zone, leaders string
	out                 io.Writer
}

// run takes part in the cluster until ctx or the node ends.
func (m member) run(ctx context.Context, heartbeats cluster.Coordinator, listen string) error {
	node, err := m.join(ctx, heartbeats)
	if err != nil {
		return err
	}
	defer node.Close()
	fmt.Fprintf(m.out, "%s joins, with version %d\n", m.name, node.Self().Version)
	server := &http.Server{Addr: listen, Handler: routes(node), ReadHeaderTimeout: time.Second}
	defer server.Close()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	case <-node.Done():
		return node.Err()
	}
}

func (m member) join(ctx context.Context, heartbeats cluster.Coordinator) (*cluster.Node, error) {
	return cluster.Start(ctx, cluster.Config{
		Cluster: "orders", Name: m.name, Coordinator: heartbeats,
		Timeout: 10 * time.Second, Every: 2 * time.Second, // four lost heartbeats do not end the membership
		Metadata:  map[string]string{"zone": m.zone},
		Elect:     m.elect,
		Listeners: []cluster.Listener{m.report},
	})
}

// elect is a pure function of the state. It returns the first member of the zone that is not on standby. Without a zone, the default rule
// applies.
func (m member) elect(s cluster.State) (cluster.Member, bool) {
	if m.leaders == "" {
		return cluster.LowestSession(s)
	}
	for other := range s.Members() {
		if other.Metadata["zone"] == m.leaders && other.Metadata["standby"] == "" {
			return other, true
		}
	}
	return cluster.Member{}, false
}

// standby sets or clears the standby mark of this member. The elect of every member passes over members with this mark.
func standby(node *cluster.Node, mark string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := node.SetMetadata(map[string]string{"standby": mark}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent) // the next heartbeat carries the mark
	}
}

// report prints the members that came or went since its last call. It may skip states when it is slow, because it compares only two states,
// whatever happened between them.
func (m member) report(_ context.Context, e cluster.Event) error {
	for other := range e.State.Members() {
		if _, before := e.Previous.Member(other.SessionID); !before && other.SessionID != e.SessionID {
			fmt.Fprintf(m.out, "%s/%s: %s has joined\n", e.Cluster, e.Name, other.Name)
		}
	}
	for other := range e.Previous.Members() {
		if _, still := e.State.Member(other.SessionID); !still {
			fmt.Fprintf(m.out, "%s/%s: %s has left\n", e.Cluster, e.Name, other.Name)
		}
	}
	return nil
}

func routes(node *cluster.Node) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /cluster", node)
	mux.HandleFunc("PUT /standby", standby(node, "yes"))
	mux.HandleFunc("DELETE /standby", standby(node, "")) // an empty value removes the mark
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, _ *http.Request) {
		leader, found := node.Leader()
		switch err := node.Err(); {
		case errors.Is(err, cluster.ErrClosed):
			http.Error(w, "this process is leaving", http.StatusServiceUnavailable)
		case errors.Is(err, cluster.ErrListener):
			http.Error(w, "this process is broken: "+err.Error(), http.StatusInternalServerError)
		case !found:
			http.Error(w, "no member that may lead is alive", http.StatusNotFound)
		default:
			_ = json.NewEncoder(w).Encode(leader) // the client may be gone
		}
	})
	return mux
}
