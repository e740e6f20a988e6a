// Command broker uses its node ID and its version for more than IDs. Each broker owns the segment of its node ID and appends to it.
//
//   - Fencing: every append carries the lease's version, and the segment refuses a version below the highest it has seen. So a broker that
//     was paused between its check and its write does no harm when it wakes up, however long the pause was. No lease can promise this
//     without the resource's help.
//   - Known versions: brokers are connected to each other. Each publishes the versions of the brokers to which it is connected.
//   - Readiness: after a crash, the next broker with the node ID is ready when all others are connected to it, and none still sends to its
//     predecessor. After a clean end, the next broker is ready at once.
//
// The brokers need a store of segments, which is an HTTP server that accepts POST /segments/NODE?version=V.
//
//	NODELEASE_TABLE=… NODELEASE_POOL=brokers go run ./examples/broker -name broker-a -segments http://127.0.0.1:9000
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

func main() {
	log.SetFlags(0)
	b := broker{out: os.Stdout}
	var store string
	flag.StringVar(&b.name, "name", "", "the broker's name, which it keeps across restarts")
	flag.StringVar(&store, "segments", "", "URL of the store of segments")
	flag.DurationVar(&b.ttl, "ttl", lease.DefaultTTL, "length of the lease")
	flag.Parse()
	b.segments = segments{store}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := lease.OpenClient(ctx, "") // the SDK's default configuration
	if err == nil {
		err = b.run(ctx, client)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type broker struct {
	name     string
	ttl      time.Duration
	segments segments
	out      io.Writer
}

// run appends until ctx ends, or the broker has lost its node ID.
func (b broker) run(ctx context.Context, client *dynamodb.Client) error {
	table := os.Getenv("NODELEASE_TABLE")
	agent, err := lease.Start(ctx, lease.Config{
		Store: lease.NewDynamoDB(client, table), Task: b.name, Wait: time.Minute, // for the lease of a broker that crashed
		TTL: b.ttl, Guard: b.ttl / 5, ClaimGuard: b.ttl / 10,
	})
	if err != nil {
		return err
	}
	defer agent.Close()
	node, err := cluster.Start(ctx, cluster.Config{Name: b.name, Agent: agent, Coordinator: dynamocoordinator.New(client, table)})
	if err != nil {
		return err
	}
	defer node.Close()
	go b.connect(ctx, node)
	// This broker is ready only when all others have connected to it, and so have left the connection to the last holder of this node ID.
	if err := node.WaitKnown(ctx); err != nil {
		return err
	}
	self := node.Self()
	fmt.Fprintf(b.out, "broker %d, version %d: ready\n", self.NodeID, self.Version)
	return b.serve(ctx, agent)
}

// connect simulates connections to the live brokers, and publishes to which brokers this one is connected. A real broker would dial here,
// and publish according to its connections or its gossip, not to the cluster's state.
func (b broker) connect(ctx context.Context, node *cluster.Node) {
	for e := range node.Changes(ctx) {
		connected := cluster.Versions{}
		var names []string
		for peer := range e.State.Members() {
			connected[peer.Key()] = peer.Version
			names = append(names, fmt.Sprintf("%s/%d", peer.Name, peer.Version))
		}
		fmt.Fprintf(b.out, "connected to %s\n", strings.Join(names, " "))
		if err := node.Publish(ctx, connected); err != nil && ctx.Err() == nil {
			log.Printf("%s: not published: %v", b.name, err) // the next change publishes all connections
		}
	}
}

// serve appends an entry now and then. The check of the lease and the append are two steps, and any time may pass between them. The version
// makes up for that.
func (b broker) serve(ctx context.Context, agent *lease.Agent) error {
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for n := 0; ; n++ {
		held, err := agent.Lease()
		if err == nil {
			err = b.segments.append(ctx, held.NodeID, held.Version, fmt.Sprintf("%s entry %d", b.name, n))
		}
		if n == 0 && err == nil {
			fmt.Fprintf(b.out, "broker %d, version %d: appended\n", held.NodeID, held.Version)
		}
		select {
		case <-every.C: // if this entry failed, because of a suspension or an outage of the store, the next one may succeed
		case <-agent.Done():
			return agent.Err()
		case <-ctx.Done():
			return nil
		}
	}
}
