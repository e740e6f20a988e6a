package sim

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// createTable makes the table with a client of its own.
func createTable(ctx context.Context, transport http.RoundTripper) error {
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://db"), Credentials: credentials.NewStaticCredentialsProvider("A", "B", ""),
		HTTPClient: &http.Client{Transport: transport},
	})
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String(tableName), BillingMode: types.BillingModePayPerRequest,
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
