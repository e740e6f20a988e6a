package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Open returns the store of the table that NODELEASE_TABLE names.
func Open() (*protocol.DynamoDB, error) {
	table := os.Getenv("NODELEASE_TABLE")
	if table == "" {
		return nil, errors.New("NODELEASE_TABLE is empty: set it to the table's name")
	}
	cfg, err := environment("DYNAMODB")
	if err != nil {
		return nil, err
	}
	return protocol.NewDynamoDB(dynamodb.NewFromConfig(cfg), table), nil
}

// OpenMetrics returns a CloudWatch client.
func OpenMetrics() (Metrics, error) {
	cfg, err := environment("CLOUDWATCH")
	if err != nil {
		return nil, err
	}
	return cloudwatch.NewFromConfig(cfg), nil
}

// connections are shared by all clients of the process.
var connections = &http.Client{Transport: awshttp.NewBuildableClient().GetTransport()}

// thaw drops connections that no request uses. Lambda freezes a process between two events.
// Connections that were open when the process was frozen may be dead, and the reaper would take a
// request that fails on a dead connection for an outage.
func thaw() { connections.CloseIdleConnections() }

// environment returns the configuration that Lambda sets in every function's environment.
// The SDK's default configuration also looks for profiles, SSO and roles, which do not
// exist here. Its code would make up a seventh of the zip file.
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
func environment(service string) (aws.Config, error) {
	cfg := aws.Config{
		HTTPClient:  connections,
		Region:      os.Getenv("AWS_REGION"),
		Credentials: credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN")),
	}
	if err := settings(&cfg); err != nil {
		return cfg, err
	}
	for _, name := range []string{"AWS_ENDPOINT_URL_" + service, "AWS_ENDPOINT_URL"} {
		if url := os.Getenv(name); url != "" && cfg.BaseEndpoint == nil {
			cfg.BaseEndpoint = &url
		}
	}
	if cfg.Region == "" || os.Getenv("AWS_ACCESS_KEY_ID") == "" {
		return cfg, fmt.Errorf("AWS_REGION is %q, AWS_ACCESS_KEY_ID has %d characters: run this as a Lambda function, which gets both from Lambda", cfg.Region, len(os.Getenv("AWS_ACCESS_KEY_ID")))
	}
	return cfg, nil
}

// settings applies the SDK settings that a deployer may set for a function: FIPS 140 and
// dual-stack (IPv6) endpoints, and how often a call is retried. Lease requests are not
// affected by the retry settings: this program retries them itself.
// https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html
func settings(cfg *aws.Config) error {
	fips, wrongFIPS := truth("AWS_USE_FIPS_ENDPOINT")
	dual, wrongDual := truth("AWS_USE_DUALSTACK_ENDPOINT")
	cfg.ConfigSources = []any{endpoints{fips, dual}}
	var wrongMode, wrongAttempts error
	if text := os.Getenv("AWS_RETRY_MODE"); text != "" {
		cfg.RetryMode, wrongMode = aws.ParseRetryMode(text)
		if wrongMode != nil {
			wrongMode = fmt.Errorf("AWS_RETRY_MODE is %q: use standard or adaptive", text)
		}
	}
	if text := os.Getenv("AWS_MAX_ATTEMPTS"); text != "" {
		cfg.RetryMaxAttempts, wrongAttempts = strconv.Atoi(text)
		if wrongAttempts != nil || cfg.RetryMaxAttempts < 1 {
			wrongAttempts = fmt.Errorf("AWS_MAX_ATTEMPTS is %q: use a whole number from 1", text)
		}
	}
	return errors.Join(wrongFIPS, wrongDual, wrongMode, wrongAttempts)
}

// truth reads a variable that is true, false or unset.
func truth(name string) (bool, error) {
	switch text := os.Getenv(name); strings.ToLower(text) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, fmt.Errorf("%s is %q: use true or false", name, text)
	}
}

// endpoints implements the interface by which clients look up their endpoint settings.
type endpoints struct{ fips, dual bool }

// GetUseFIPSEndpoint is called by the SDK, which finds it by its name.
func (e endpoints) GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error) {
	if e.fips {
		return aws.FIPSEndpointStateEnabled, true, nil
	}
	return aws.FIPSEndpointStateUnset, false, nil
}

// GetUseDualStackEndpoint is called by the SDK, which finds it by its name.
func (e endpoints) GetUseDualStackEndpoint(context.Context) (aws.DualStackEndpointState, bool, error) {
	if e.dual {
		return aws.DualStackEndpointStateEnabled, true, nil
	}
	return aws.DualStackEndpointStateUnset, false, nil
}
