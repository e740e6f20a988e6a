package dynamotest_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/dynamotest"
)

func TestEmbedded(t *testing.T) { tryTable(t, dynamotest.Embedded(t)) }

func TestLocal(t *testing.T) { tryTable(t, dynamotest.Local(t)) }

// tryTable writes with a condition that holds once.
func tryTable(t *testing.T, client *dynamodb.Client) {
	table := dynamotest.CreateTable(t, client)
	claim := func() error {
		_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &table,
			Key: map[string]types.AttributeValue{
				"pool_group": &types.AttributeValueMemberS{Value: "p#0"},
				"node_id":    &types.AttributeValueMemberN{Value: "7"},
			},
			UpdateExpression:          aws.String("SET version = :one"),
			ConditionExpression:       aws.String("attribute_not_exists(version)"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
		})
		return err
	}
	if err := claim(); err != nil {
		t.Fatal(err)
	}
	var failed *types.ConditionalCheckFailedException
	if err := claim(); !errors.As(err, &failed) {
		t.Fatalf("second claim: %v, want a failed condition", err)
	}
}
