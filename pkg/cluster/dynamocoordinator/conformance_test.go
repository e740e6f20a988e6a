package dynamocoordinator_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
)

func TestConformanceTable(t *testing.T) {
	onTable(t, dynamotest.Embedded(t))
}

func TestConformanceDynamoDBLocal(t *testing.T) {
	onTable(t, dynamotest.Local(t))
}

func onTable(t *testing.T, client *dynamodb.Client) {
	clustertest.Conformance(t, func(t *testing.T) clustertest.Backend {
		table := dynamotest.CreateTable(t, client)
		return clustertest.Backend{Coordinator: dynamocoordinator.New(client, table), Age: func(t *testing.T, by time.Duration) {
			age(t, client, table, "c#node", "heartbeat_at", by)
			age(t, client, table, "c#known", "published_at", by)
		}}
	})
}

// age makes the times in a partition older.
func age(t *testing.T, client *dynamodb.Client, table, partition, name string, by time.Duration) {
	t.Helper()
	out, err := client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: &table, KeyConditionExpression: aws.String("pool_group = :p"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": &types.AttributeValueMemberS{Value: partition}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range out.Items {
		if item[name] == nil {
			continue
		}
		at, _ := strconv.ParseInt(item[name].(*types.AttributeValueMemberN).Value, 10, 64)
		if _, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &table, Key: map[string]types.AttributeValue{"pool_group": item["pool_group"], "node_id": item["node_id"]},
			UpdateExpression:          aws.String("SET " + name + " = :at"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":at": &types.AttributeValueMemberN{Value: strconv.FormatInt(at-by.Milliseconds(), 10)}},
		}); err != nil {
			t.Fatal(err)
		}
	}
}
