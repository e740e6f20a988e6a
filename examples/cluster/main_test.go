package main

import (
	"bufio"
	"context"
	"io"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func TestRun(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 4}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODELEASE_TABLE", table)
	t.Setenv("NODELEASE_POOL", "orders")
	ctx, stop := context.WithCancel(t.Context())
	lines, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, client, "order-service-1", out) }()
	line, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil || line != "1 alive, leader: none yet\n" {
		t.Errorf("%q, %v", line, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
