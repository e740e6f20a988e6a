package demo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/nodelease/nodelease/internal/protocol"
)

// client returns a client for an embedded DynamoDB. It logs nothing to stderr, since the
// live view may be on the same terminal.
func client(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, Logger: logging.Nop{},
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
}

// CreateTable creates the product's table in an embedded DynamoDB, unless it exists.
func CreateTable(ctx context.Context, endpoint, name string) error {
	return protocol.CreateTable(ctx, client(endpoint), name)
}
