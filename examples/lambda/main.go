// Command lambda is an AWS Lambda function that generates IDs. It leases its node ID on
// demand, as docs/lambda.md explains. The environment variables NODELEASE_TABLE and
// NODELEASE_POOL name the table and the pool. LEASE_TTL, such as 1m, is the length of the
// lease.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leaselambda"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Order is a request for IDs.
type Order struct {
	Count int `json:"count"` // 1 to 100,000
}

// Answer contains the IDs, with the node ID and the fencing token of this environment.
type Answer struct {
	IDs     []snowflake.ID `json:"ids"`
	NodeID  int            `json:"node_id"`
	Version int64          `json:"version"`
}

func handle(ctx context.Context, o Order) (Answer, error) {
	if o.Count < 1 || o.Count > 100_000 {
		return Answer{}, fmt.Errorf("count %d: use 1 to 100000", o.Count)
	}
	a := Answer{IDs: make([]snowflake.ID, o.Count)}
	for i := range a.IDs {
		var err error
		if a.IDs[i], err = leaselambda.Generator(ctx).Next(); err != nil {
			return Answer{}, err
		}
	}
	l, err := leaselambda.Lease(ctx)
	a.NodeID, a.Version = l.NodeID, l.Version
	return a, err
}

func main() {
	cfg := lease.Config{}
	if ttl := os.Getenv("LEASE_TTL"); ttl != "" {
		var err error
		if cfg.TTL, err = time.ParseDuration(ttl); err != nil {
			fmt.Fprintf(os.Stderr, "LEASE_TTL: %v: use a duration such as 1m\n", err)
			os.Exit(2)
		}
	}
	lambda.Start(leaselambda.Wrap(handle, cfg))
}
