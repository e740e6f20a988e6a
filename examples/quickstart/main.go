// Command quickstart is the README's program: it leases a node ID and generates one ID.
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

	agent, err := lease.Start(ctx, lease.Config{}) // the table and the pool come from the environment
	check(err)
	defer agent.Close() // releases the node ID

	ids, err := snowflake.New(agent) // the layout of the IDs is the pool's
	check(err)
	id, err := ids.Next()
	check(err)
	fmt.Println(agent.NodeID(), id)
}

// check ends the program on an error. A service would return the error instead.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
