package main

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// hollow answers DescribeTable successfully, but without a table, as a load balancer that
// was mistaken for DynamoDB may do.
type hollow struct{ *ward }

func (hollow) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return &dynamodb.DescribeTableOutput{}, nil
}

func TestDoctorWithoutATable(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	d := &doctor{globals: &globals{table: w.table, pool: "orders"}, client: hollow{w}, now: time.Now}
	if got := d.examine(t.Context()).Findings[0]; got.Level != problem {
		t.Errorf("got %+v, want a problem", got)
	}
}
