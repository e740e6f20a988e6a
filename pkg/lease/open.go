package lease

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"
)

// Open makes a store with the client of [OpenClient].
func Open(ctx context.Context, table, endpoint string) (*DynamoDB, error) {
	client, err := OpenClient(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return NewDynamoDB(client, table), nil
}

// OpenClient makes a client with the SDK's default configuration: Region,
// credentials and proxies from the environment, the shared files or the task's
// role. An endpoint of "" is the one of the environment
// (AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL), else AWS's own. An endpoint on
// the loopback interface (an emulator) needs neither Region nor credentials.
func OpenClient(ctx context.Context, endpoint string) (*dynamodb.Client, error) {
	if endpoint == "" {
		endpoint = os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")
	}
	if endpoint == "" {
		endpoint = os.Getenv("AWS_ENDPOINT_URL")
	}
	// What the SDK would print to stderr are attempts that were cut off: events.
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	local, err := loopback(endpoint)
	if err != nil {
		return nil, err
	}
	if local {
		options = append(options, config.WithDefaultRegion("us-east-1"))
		if os.Getenv("AWS_ACCESS_KEY_ID") == "" {
			options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")))
		}
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: AWS configuration: %w", ErrAccess, err)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("%w: no AWS Region: set AWS_REGION, or use an endpoint on 127.0.0.1, which needs none", ErrAccess)
	}
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	}), nil
}

// loopback reports whether an endpoint is on this machine.
func loopback(endpoint string) (bool, error) {
	if endpoint == "" {
		return false, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("%w: endpoint %q: use a URL as http://127.0.0.1:8000", ErrAccess, endpoint)
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(), nil
}
