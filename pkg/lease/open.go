package lease

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/nodelease/nodelease/internal/lastaddress"
	"github.com/nodelease/nodelease/internal/protocol"
)

// Open returns a store that uses a client from [OpenClient].
func Open(ctx context.Context, table, endpoint string) (Store, error) {
	client, err := OpenClient(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return NewDynamoDB(client, table), nil
}

// OpenClient returns a client with the SDK's default configuration: Region, credentials
// and proxies come from the environment, the shared files or the task's role. If endpoint
// is "", the client uses the endpoint from the environment (AWS_ENDPOINT_URL_DYNAMODB, or
// else AWS_ENDPOINT_URL), or the AWS endpoint of the Region if neither variable is set.
// For an endpoint on the loopback interface (an emulator), neither a Region nor
// credentials are needed.
//
// When the host name of an https endpoint cannot be resolved, or no longer has an
// address, the client connects to the addresses that last worked; TLS verifies the host
// name as usual. NODELEASE_LAST_ADDRESSES=off turns this off.
func OpenClient(ctx context.Context, endpoint string) (*dynamodb.Client, error) {
	client, _, err := openClient(ctx, endpoint, awshttp.DefaultHTTPTransportIdleConnTimeout)
	return client, err
}

// openClient does what OpenClient does, and also returns a function that closes the
// client's idle connections. Idle connections close by themselves after the duration
// idle.
func openClient(ctx context.Context, endpoint string, idle time.Duration) (*dynamodb.Client, func(), error) {
	if err := protocol.CheckContext(ctx); err != nil {
		return nil, nil, err
	}
	if endpoint == "" {
		endpoint = os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")
	}
	if endpoint == "" {
		endpoint = os.Getenv("AWS_ENDPOINT_URL")
	}
	// Without this logger, the SDK would print interrupted attempts to stderr; the agent
	// reports them as events. Credentials are fetched rarely, so the connections for them
	// need not stay open in between.
	credentialsHTTP := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = time.Second })
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{}), config.WithHTTPClient(credentialsHTTP)}
	local, err := loopback(endpoint)
	if err != nil {
		return nil, nil, err
	}
	if local {
		options = append(options, config.WithDefaultRegion("us-east-1"))
		if os.Getenv("AWS_ACCESS_KEY_ID") == "" {
			options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")))
		}
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: AWS configuration: %w", ErrAccess, err)
	}
	if cfg.Region == "" {
		return nil, nil, fmt.Errorf("%w: no AWS Region: set AWS_REGION, or use an endpoint on 127.0.0.1, which needs none", ErrAccess)
	}
	client, closeIdle := ownConnections(cfg, idle)
	return dynamodb.NewFromConfig(cfg, protocol.Genuine, func(o *dynamodb.Options) {
		o.HTTPClient = client
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	}), closeIdle, nil
}

// ownConnections returns an HTTP client with the proxies and certificates of the SDK's
// client, and a function that closes its idle connections. The idle connections of the
// SDK's own client cannot be closed, so each failed start would leave some connections
// open.
func ownConnections(cfg aws.Config, idle time.Duration) (*http.Client, func()) {
	sdk, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok { // cannot happen: cfg has openClient's own client, at most with more certificates
		sdk = awshttp.NewBuildableClient()
	}
	transport := sdk.GetTransport()
	transport.IdleConnTimeout = idle
	return &http.Client{
		Transport:     plainBodies{lastaddress.Remember(transport)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, transport.CloseIdleConnections
}

// plainBodies sends request bodies without their WriteTo method. Once the header of the
// answer has arrived, the SDK closes the request body, and WriteTo returns io.EOF.
// net/http treats this as a broken request and closes the connection while the rest of
// the answer is still being read. Without plainBodies, about one in a hundred answers of
// more than 4 KB from a nearby server would fail with "the answer was cut off"
// (aws-sdk-go-v2 issue 1825).
type plainBodies struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (p plainBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r = r.WithContext(r.Context())
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.RoundTripper.RoundTrip(r)
}

// loopback reports whether an endpoint is on the loopback interface of this machine.
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
