// Command leader shows the two ways to have a leader, side by side.
//
// By state: the leader is a pure function of the live members. It costs nothing and needs
// no election. But in a partition, two members may see different states and follow two
// leaders. Use it if a second leader only does work twice and does no harm.
//
// By lease: the leader holds the lease of a pool of one node ID. One process at a time
// believes that it leads, within the stated clock error. Use it if two leaders would do
// harm. The resource must then compare the version, which shows which leader is newer (see
// examples/broker).
//
//	NODELEASE_TABLE=… NODELEASE_POOL=members go run ./examples/leader -name a -leaders leader
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

type member struct {
	name, leaders string
	ttl           time.Duration
}

func main() {
	log.SetFlags(0)
	var m member
	flag.StringVar(&m.name, "name", "", "a unique `name` of this process, the same after a restart")
	flag.StringVar(&m.leaders, "leaders", "leader", "the `pool` of one node ID that is the leader lease")
	flag.DurationVar(&m.ttl, "ttl", lease.DefaultTTL, "length of the leases: how long a dead leader blocks the next one")
	flag.Parse()
	if err := lease.Run(context.Background(), m.lease(""), m.takePart); err != nil {
		log.Fatal(err)
	}
}

// lease returns the terms of a lease. It sets the guards, so that short leases can be tried. Two renewals in a row may fail before a leader
// steps down.
func (m member) lease(pool string) lease.Config {
	return lease.Config{Pool: pool, TTL: m.ttl, RenewEvery: m.ttl / 4, Guard: m.ttl / 5, ClaimGuard: m.ttl / 10}
}

func (m member) takePart(ctx context.Context, agent *lease.Agent) error {
	client, err := lease.OpenClient(ctx, "") // the SDK's default configuration
	if err != nil {
		return err
	}
	table := dynamocoordinator.New(client, os.Getenv("NODELEASE_TABLE"))
	node, err := cluster.Start(ctx, cluster.Config{Name: m.name, Coordinator: table, Agent: agent})
	if err != nil {
		return err
	}
	defer node.Close()

	ended := make(chan error, 1)
	go func() { ended <- m.leadByLease(ctx, m.lease(m.leaders)) }()
	led := ""
	for e := range node.Changes(ctx) {
		if e.Leader.SessionID != "" && e.Leader.Name != led {
			led = e.Leader.Name
			fmt.Printf("%s: leader by state is %s, of %d\n", m.name, led, e.State.Len())
		}
	}
	if err := <-ended; err != nil {
		return err
	}
	return context.Cause(ctx)
}

// queueAgain is how long leadByLease pauses after it got no lease.
const queueAgain = 5 * time.Second

// leadByLease waits for its turn, and leads until it is told to stop or loses the lease. If it is told to stop, it releases the lease to
// the next leader at once.
func (m member) leadByLease(ctx context.Context, cfg lease.Config) error {
	cfg.Wait = time.Hour
	for ctx.Err() == nil {
		leader, err := lease.Start(ctx, cfg)
		if err != nil { // another one has led for all of this time, or DynamoDB is away: queue up again
			log.Printf("%s: no leader lease yet: %v", m.name, err)
			select {
			case <-time.After(queueAgain):
			case <-ctx.Done():
			}
			continue
		}
		if l, err := leader.Lease(); err == nil {
			fmt.Printf("%s: leader by lease, version %d\n", m.name, l.Version)
		}
		select {
		case <-leader.Done(): // lost: queue up again
		case <-ctx.Done():
			return leader.Close()
		}
	}
	return nil
}
