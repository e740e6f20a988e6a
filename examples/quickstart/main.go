// Command quickstart is the README's program: one lease, one generator, one ID.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func main() {
	ctx := context.Background()

	agent, err := lease.Start(ctx, lease.Config{}) // table and pool come from the environment
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close() // after draining; releases the node ID

	ids, err := snowflake.New(agent) // the layout of the IDs is the pool's
	if err != nil {
		log.Fatal(err)
	}
	id, err := ids.Next()

	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(agent.NodeID(), id)
}
