package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
)

func TestTableNames(t *testing.T) {
	for table, name := range map[string]string{
		"leases": "leases",
		"arn:aws:dynamodb:us-east-1:111111111111:table/leases":         "leases",
		"arn:aws-us-gov:dynamodb:us-gov-west-1:111111111111:table/a.b": "a.b",
	} {
		if err := protocol.CheckTable(table); err != nil || protocol.TableName(table) != name {
			t.Errorf("%s: %v, %s, want %s", table, err, protocol.TableName(table), name)
		}
	}
	for _, table := range []string{"", "ab", "a b c", "arn:aws:dynamodb:us-east-1:1:table/leases", "arn:aws:sns:us-east-1:111111111111:table/leases",
		"arn:aws:dynamodb:us-east-1:111111111111:table/leases/index/i", "arn:aws:dynamodb::111111111111:table/leases", "leases\n"} {
		if err := protocol.CheckTable(table); err == nil || !strings.Contains(err.Error(), "or an ARN such as") {
			t.Errorf("%q: %v, want an error with an example", table, err)
		}
	}
}

// For DynamoDB, there is no table with the ARN of a Region other than the client's.
func TestTableOfAnotherRegion(t *testing.T) {
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1"})
	err := protocol.NewDynamoDB(client, "arn:aws:dynamodb:eu-west-1:111111111111:table/leases").Check(t.Context())
	if !errors.Is(err, protocol.ErrTable) || !strings.Contains(err.Error(), "set AWS_REGION to eu-west-1") {
		t.Errorf("%v, want ErrTable with the Region", err)
	}
}
