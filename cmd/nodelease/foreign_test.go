package main

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// A foreign item does not hide that a node ID is missing: one whose key has a fraction, or one
// in the partition of another group.
func TestForeignItemIsNoNodeID(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 300)
	if _, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{ // so the last two node IDs are missing
		TableName: &w.table, Key: map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: "orders"}, "node_id": &types.AttributeValueMemberN{Value: "-1"}},
		UpdateExpression: aws.String("SET pool_size = :size"), ExpressionAttributeValues: map[string]types.AttributeValue{":size": &types.AttributeValueMemberN{Value: "302"}},
	}); err != nil {
		t.Fatal(err)
	}
	w.put(map[string]any{"pool_group": "orders#1", "node_id": 300.5, "version": 1, "reserved_until": 1})
	w.put(map[string]any{"pool_group": "orders#0", "node_id": 301, "version": 1, "reserved_until": 1})
	found := false
	for _, f := range w.examine().Findings {
		found = found || strings.Contains(f.Text, "2 of its 302 node IDs are missing")
	}
	if !found {
		t.Errorf("doctor: got %+v, want 2 missing node IDs", w.examine().Findings)
	}
	for args, want := range map[string]string{"resize --size 303 --dry-run --json": `"seeded":3,`, "raise --dry-run --json": `"seeded":2,`} {
		if code, stdout, stderr := call(append(strings.Fields(args), "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: got exit code %d, %s%s, want %s", args, code, stdout, stderr, want)
		}
	}
}
