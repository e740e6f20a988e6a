package handler

import (
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Open makes the store of the table that NODELEASE_TABLE names.
func Open() (*lease.DynamoDB, error) {
	table := os.Getenv("NODELEASE_TABLE")
	if table == "" {
		return nil, errors.New("NODELEASE_TABLE is empty: name the table")
	}
	cfg, err := environment("DYNAMODB")
	if err != nil {
		return nil, err
	}
	return lease.NewDynamoDB(dynamodb.NewFromConfig(cfg), table), nil
}

// OpenMetrics makes a client of CloudWatch.
func OpenMetrics() (Metrics, error) {
	cfg, err := environment("CLOUDWATCH")
	if err != nil {
		return nil, err
	}
	return cloudwatch.NewFromConfig(cfg), nil
}

// environment is the configuration that Lambda gives every function in its
// environment. The SDK's default one looks for profiles, SSO and roles besides,
// which are not there and would be a seventh of the zip.
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
func environment(service string) (aws.Config, error) {
	cfg := aws.Config{
		Region:      os.Getenv("AWS_REGION"),
		Credentials: credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN")),
	}
	for _, name := range []string{"AWS_ENDPOINT_URL_" + service, "AWS_ENDPOINT_URL"} {
		if url := os.Getenv(name); url != "" && cfg.BaseEndpoint == nil {
			cfg.BaseEndpoint = &url
		}
	}
	if cfg.Region == "" || os.Getenv("AWS_ACCESS_KEY_ID") == "" {
		return cfg, fmt.Errorf("AWS_REGION is %q, AWS_ACCESS_KEY_ID has %d characters: run this as a Lambda function, which is given both", cfg.Region, len(os.Getenv("AWS_ACCESS_KEY_ID")))
	}
	return cfg, nil
}
