// Command cluster takes part in a cluster. It prints the live members and the leader each
// time that they change.
//
//	NODELEASE_TABLE=… NODELEASE_POOL=orders go run ./examples/cluster order-service-1
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: cluster NAME, a unique name that the node keeps across restarts")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := lease.OpenClient(ctx, "") // the SDK's default configuration
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, client, os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run takes part in the cluster until ctx or the node ends.
func run(ctx context.Context, client *dynamodb.Client, name string, out io.Writer) error {
	table := os.Getenv("NODELEASE_TABLE")
	agent, err := lease.Start(ctx, lease.Config{Store: lease.NewDynamoDB(client, table)})
	if err != nil {
		return err
	}
	defer agent.Close()
	node, err := cluster.Start(ctx, cluster.Config{
		Name: name, Agent: agent, Coordinator: dynamocoordinator.New(client, table), PublishKnown: true,
	})
	if err != nil {
		return err
	}
	defer node.Close()
	// This member is ready when no member considers the last holder of this node ID alive.
	if err := node.WaitKnown(ctx); err != nil {
		return err
	}
	for e := range node.Changes(ctx) {
		fmt.Fprintln(out, e.State.Len(), "alive, leader:", cmp.Or(e.Leader.Name, "none yet"))
	}
	if err := node.Err(); errors.Is(err, cluster.ErrLease) {
		return fmt.Errorf("the node ID belongs to another process: restart: %w", err)
	}
	return node.Err()
}
