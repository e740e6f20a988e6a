package dynamotest_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

func TestEmbedded(t *testing.T) { tryTable(t, dynamotest.Embedded(t)) }

func TestLocal(t *testing.T) { tryTable(t, dynamotest.Local(t)) }

// tryTable makes the same write twice, with a condition that holds only the first time.
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

// If its emulator is missing, a test is skipped, or fails in CI and if emulators are required.
func TestMissing(t *testing.T) {
	for _, test := range []struct{ ci, require, want string }{
		{"", "", "skipped"}, {"", "0", "skipped"}, {"true", "", "failed"}, {"", "1", "failed"},
	} {
		t.Setenv("CI", test.ci)
		t.Setenv("NODELEASE_REQUIRE_EMULATORS", test.require)
		tb := &ended{TB: t}
		if dynamotest.Missing(tb, "no emulator"); tb.how != test.want {
			t.Errorf("%+v: %s", test, tb.how)
		}
	}
}

// ended is a test that records how it was ended.
type ended struct {
	testing.TB
	how string
}

func (e *ended) Fatal(...any) { e.how = "failed" }

func (e *ended) Skip(...any) {
	if e.how == "" { // not after Fatal, which would not have returned in a real test
		e.how = "skipped"
	}
}
