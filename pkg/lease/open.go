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

// Open returns a store with the client of [OpenClient].
func Open(ctx context.Context, table, endpoint string) (*DynamoDB, error) {
	client, err := OpenClient(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return NewDynamoDB(client, table), nil
}

// OpenClient returns a client with the SDK's default configuration: Region, credentials
// and proxies from the environment, the shared files or the task's role. An endpoint of
// "" is the one of the environment (AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL), else
// AWS's own. An endpoint on the loopback interface (an emulator) needs neither Region nor
// credentials.
//
// When the name of an https endpoint cannot be resolved, or no longer has an address,
// the client connects to the addresses that answered it last; TLS checks the name as always.
// NODELEASE_LAST_ADDRESSES=off turns that off.
func OpenClient(ctx context.Context, endpoint string) (*dynamodb.Client, error) {
	client, _, err := openClient(ctx, endpoint, awshttp.DefaultHTTPTransportIdleConnTimeout)
	return client, err
}

// openClient is OpenClient, and also returns a function that closes the client's idle
// connections, which close by themselves after idle.
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
	// The SDK would print interrupted attempts to stderr; the agent reports them as events.
	// Credentials are fetched now and then: no connection is needed in between.
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

// ownConnections returns an HTTP client like the SDK's, with its proxies and
// certificates, whose idle connections can be closed. The SDK's cannot, so each failed
// start would leave some open.
func ownConnections(cfg aws.Config, idle time.Duration) (*http.Client, func()) {
	sdk, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok { // openClient's own client, at most with more certificates
		sdk = awshttp.NewBuildableClient()
	}
	transport := sdk.GetTransport()
	transport.IdleConnTimeout = idle
	return &http.Client{
		Transport:     plainBodies{lastaddress.Remember(transport)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, transport.CloseIdleConnections
}

// plainBodies sends request bodies without their WriteTo method. The SDK closes a body
// once the answer's header is there, its WriteTo then says io.EOF, net/http takes that
// for a broken request, and closes the connection under an answer that is still being
// read: "the answer was cut off", for about one in a hundred answers of more than 4 KB
// from a nearby server (aws-sdk-go-v2 issue 1825).
type plainBodies struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (p plainBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r = r.WithContext(r.Context())
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.RoundTripper.RoundTrip(r)
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
