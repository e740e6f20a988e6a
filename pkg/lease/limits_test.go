package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// The only free node ID has the largest version that an item may have, so every claim of it is
// refused. A start says at once that the pool is exhausted, and does not claim it again and
// again.
func TestLargestVersionIsNotClaimed(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	s := protocol.NewDynamoDB(client, table)
	if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &table, UpdateExpression: aws.String("SET version = :largest"),
		Key: map[string]types.AttributeValue{
			"pool_group": &types.AttributeValueMemberS{Value: "orders#0"}, "node_id": &types.AttributeValueMemberN{Value: "0"},
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{":largest": &types.AttributeValueMemberN{Value: "9007199254740991"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &events{}
	cfg := fixture.Config(s)
	cfg.OnEvent = e.add
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := lease.Start(ctx, cfg); !errors.Is(err, lease.ErrPoolExhausted) {
		t.Errorf("got %v, want %v", err, lease.ErrPoolExhausted)
	}
	if n := len(e.of(lease.EventTaken)); n > 1 {
		t.Errorf("%d claims were refused, want only the first guess", n)
	}
}
