package demo

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"
)

// client is a client of an embedded DynamoDB. It says nothing on stderr, where
// the live view may be.
func client(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, Logger: logging.Nop{},
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
}

// CreateTable makes the product's table in an embedded DynamoDB, if it is not
// there. Real ones are made by the CDK construct.
func CreateTable(ctx context.Context, endpoint, name string) error {
	_, err := client(endpoint).CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pool_group"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("node_id"), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pool_group"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("node_id"), KeyType: types.KeyTypeRange},
		},
	})
	var exists *types.ResourceInUseException
	if errors.As(err, &exists) {
		return nil
	}
	return err
}
