package faults

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func createTable(ctx context.Context, endpoint string) error {
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("A", "B", ""),
	})
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("leases"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pool_group"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("node_id"), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pool_group"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("node_id"), KeyType: types.KeyTypeRange},
		},
	})
	return err
}
