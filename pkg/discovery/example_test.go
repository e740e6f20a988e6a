package discovery_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/discovery/discoverytest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// hold returns a process's lease. A real program needs only lease.Config{}.
func hold(ctx context.Context, leases lease.Store) *lease.Agent {
	agent, err := lease.Start(ctx, lease.Config{Pool: "shop", Store: leases, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	return agent
}

// A process registers its offers. Other processes find these offers for as long as the
// first process's lease is live.
func Example() {
	ctx := context.Background()
	leases := leasetest.NewMemory("shop", 8) // a real program uses discovery.NewTable(client, table)
	directory, err := discovery.New(discovery.Config{Pool: "shop", Store: discoverytest.NewMemory(leases)})
	if err != nil {
		log.Fatal(err)
	}
	agent := hold(ctx, leases)
	defer agent.Close()

	here := discovery.Address{Host: "10.0.0.7", Port: 8080, Zone: "eu-central-1a"}
	err = directory.Register(ctx, agent,
		discovery.Service{Name: "orders", Address: here},
		discovery.Endpoint{Name: "shard", Key: "7", Address: here})
	if err != nil {
		log.Fatal(err)
	}

	orders, err := directory.Service("orders")
	if err != nil {
		log.Fatal(err)
	}
	instances, err := orders.Resolve(ctx)
	for _, i := range instances {
		fmt.Println("orders:", i.HostPort(), i.Zone, err)
	}
	if err := directory.Leave(ctx, agent); err != nil { // before draining
		log.Fatal(err)
	}
	shard, err := directory.Endpoint("shard", "7")
	if err != nil {
		log.Fatal(err)
	}
	instances, err = shard.Resolve(ctx)
	fmt.Println("shard 7:", len(instances), err)
	// Output:
	// orders: 10.0.0.7:8080 eu-central-1a <nil>
	// shard 7: 0 <nil>
}

// A watcher acts on the newest list, whatever the changes were that led to it.
func ExampleLookup_Watch() {
	ctx := context.Background()
	leases := leasetest.NewMemory("shop", 8)
	directory, err := discovery.New(discovery.Config{Pool: "shop", Store: discoverytest.NewMemory(leases)})
	if err != nil {
		log.Fatal(err)
	}
	agent := hold(ctx, leases)
	defer agent.Close()
	err = directory.Register(ctx, agent, discovery.Service{Name: "orders", Address: discovery.Address{Host: "10.0.0.7", Port: 8080}})
	if err != nil {
		log.Fatal(err)
	}
	orders, err := directory.Service("orders")
	if err != nil {
		log.Fatal(err)
	}
	for instances := range orders.Watch(ctx) {
		fmt.Println(len(instances), "at", instances[0].HostPort())
		break
	}
	// Output: 1 at 10.0.0.7:8080
}
