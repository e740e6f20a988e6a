package cluster_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Three nodes run in one process. With dynamocoordinator.New, and a lease agent in each
// Config, the nodes could run in three processes anywhere.
func Example() {
	ctx := context.Background()
	backend := clustertest.NewMemory()
	var last *cluster.Node
	for _, name := range []string{"anna", "ben", "carla"} {
		node, err := cluster.Start(ctx, cluster.Config{Cluster: "orders", Name: name, Coordinator: backend})
		if err != nil {
			log.Fatal(err)
		}
		defer node.Close()
		last = node
	}
	for m := range last.State().Members() {
		fmt.Println(m.Name, "version", m.Version)
	}
	leader, _ := last.Leader()
	fmt.Println(leader.Name, "leads")
	// Output:
	// anna version 1
	// ben version 1
	// carla version 1
	// anna leads
}

// Listeners receive the newest state, and the state that they received before it.
func ExampleListener() {
	ctx := context.Background()
	backend := clustertest.NewMemory()
	told := make(chan string)
	node, err := cluster.Start(ctx, cluster.Config{
		Cluster: "orders", Name: "anna", Coordinator: backend, Every: 10 * time.Millisecond,
		Listeners: []cluster.Listener{func(_ context.Context, e cluster.Event) error {
			told <- fmt.Sprintf("%d alive, %d before", e.State.Len(), e.Previous.Len())
			return nil
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	fmt.Println(<-told)
	other, err := cluster.Start(ctx, cluster.Config{Cluster: "orders", Name: "ben", Coordinator: backend})
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	fmt.Println(<-told)
	// Output:
	// 1 alive, 0 before
	// 2 alive, 1 before
}

// The loop receives the next change whenever it is ready.
func ExampleNode_Changes() {
	node, err := cluster.Start(context.Background(), cluster.Config{Cluster: "orders", Name: "anna", Coordinator: clustertest.NewMemory()})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	for e := range node.Changes(context.Background()) {
		fmt.Println(e.State.Len(), "alive, seen by", e.Name)
		break
	}
	// Output:
	// 1 alive, seen by anna
}

// An Elector replaces the rule that chooses the leader. It is a pure function of the
// state.
func ExampleElector() {
	ctx := context.Background()
	backend := clustertest.NewMemory()
	inZoneB := func(s cluster.State) (cluster.Member, bool) {
		for m := range s.Members() {
			if m.Metadata["zone"] == "b" {
				return m, true
			}
		}
		return cluster.Member{}, false
	}
	for _, zone := range []string{"a", "b"} {
		node, err := cluster.Start(ctx, cluster.Config{
			Cluster: "orders", Name: "node in " + zone, Coordinator: backend, Elect: inZoneB, Metadata: map[string]string{"zone": zone},
		})
		if err != nil {
			log.Fatal(err)
		}
		defer node.Close()
		leader, found := inZoneB(node.State())
		fmt.Printf("%v %q\n", found, leader.Name)
	}
	// Output:
	// false ""
	// true "node in b"
}

// A check that reports the membership, in addition to the lease's check.
func ExampleNode_ServeHTTP() {
	node, err := cluster.Start(context.Background(), cluster.Config{Cluster: "orders", Name: "anna", Coordinator: clustertest.NewMemory()})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /cluster", node)
	ask := func() int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/cluster", nil))
		return w.Code
	}
	fmt.Println(ask())
	if err := node.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ask())
	// Output:
	// 200
	// 503
}

// ledger is a resource that accepts writes from one leader at a time: it remembers the
// largest version that it has seen, and refuses writes with a lower version.
type ledger struct{ version int64 }

func (l *ledger) write(version int64, what string) error {
	if version < l.version {
		return fmt.Errorf("refused: version %d is older than %d", version, l.version)
	}
	l.version = version
	fmt.Printf("version %d writes %q\n", version, what)
	return nil
}

// A leader lease is a pool of one node ID. Its version is the fencing token: the resource
// refuses a leader that was replaced without noticing, because the leader was frozen or
// its request was late. Nothing else refuses such a leader.
func Example_leaderLease() {
	ctx := context.Background()
	table := leasetest.NewMemory("orders-leader", 1)
	lead := func(name string) (*lease.Agent, lease.Lease) {
		agent, err := lease.Start(ctx, lease.Config{
			Pool: "orders-leader", Store: table, Task: name, Wait: time.Minute, // for its turn
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			log.Fatal(err)
		}
		l, err := agent.Lease() // the lease is checked only at this moment
		if err != nil {
			log.Fatal(err)
		}
		return agent, l
	}
	var orders ledger
	anna, first := lead("anna")
	fmt.Println(orders.write(first.Version, "order 1"))
	late := func() error { return orders.write(first.Version, "order 2") } // a request that is still on its way

	if err := anna.Close(); err != nil {
		log.Fatal(err)
	}
	ben, second := lead("ben")
	defer ben.Close()
	fmt.Println(orders.write(second.Version, "order 3"))
	fmt.Println(late())
	// Output:
	// version 1 writes "order 1"
	// <nil>
	// version 2 writes "order 3"
	// <nil>
	// refused: version 1 is older than 2
}
