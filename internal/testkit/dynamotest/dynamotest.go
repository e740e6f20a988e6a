// Package dynamotest provides tests with a DynamoDB: the embedded one, which is always
// available, or Amazon's DynamoDB Local, if it has been started. In both cases the client
// is the AWS SDK's.
package dynamotest

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/embeddeddb"
)

const (
	// EnvLocal is the variable that holds DynamoDB Local's endpoint, and envVersion the variable that holds its version.
	EnvLocal   = "NODELEASE_DYNAMODB_LOCAL"
	envVersion = "NODELEASE_DYNAMODB_LOCAL_VERSION"
	// envRequire is the variable that makes a missing emulator a failure, as the variable CI does.
	envRequire = "NODELEASE_REQUIRE_EMULATORS"
)

// Embedded starts a new embedded DynamoDB in this process and stops it when the test ends.
func Embedded(tb testing.TB) *dynamodb.Client {
	tb.Helper()
	server, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	endpoint, err := server.Listen("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return Client(tb, endpoint)
}

// Local connects to DynamoDB Local. If it does not run, the test is skipped with a
// message; in CI, or with NODELEASE_REQUIRE_EMULATORS=1, it fails. All tests share the
// server, so each makes a table of its own with CreateTable.
func Local(tb testing.TB) *dynamodb.Client {
	tb.Helper()
	endpoint := localEndpoint()
	if endpoint == "" {
		Missing(tb, "NOT TESTED against DynamoDB Local: "+EnvLocal+" is not set. "+
			"To run this test: scripts/dynamodb-local.sh run -- go test ./...")
	}
	return Client(tb, endpoint)
}

// localEndpoint returns the endpoint, or "" if there is none. The go command caches the
// result of a test together with the values of the variables that the test has read with
// Getenv. DynamoDB Local's version is the same in each run, but its port is not. So if the
// version is set, the endpoint is read in a way that the go command does not notice, and a
// result that was cached with one port is valid for any other port.
func localEndpoint() string {
	if os.Getenv(envVersion) == "" {
		return os.Getenv(EnvLocal)
	}
	for _, variable := range os.Environ() {
		if endpoint, ok := strings.CutPrefix(variable, EnvLocal+"="); ok {
			return endpoint
		}
	}
	return ""
}

// Missing ends a test that lacks its emulator: the test is skipped, or fails in CI or if NODELEASE_REQUIRE_EMULATORS=1.
func Missing(tb testing.TB, message string) {
	tb.Helper()
	if os.Getenv("CI") != "" || os.Getenv(envRequire) == "1" {
		tb.Fatal(message)
	}
	tb.Skip(message)
}

// Client returns a client for any endpoint, with dummy keys and its own connections,
// which end with the test. It does not retry calls; tests that need retries make a client
// of their own.
func Client(tb testing.TB, endpoint string) *dynamodb.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	tb.Cleanup(transport.CloseIdleConnections)
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   &http.Client{Transport: plainBodies{transport}},
		Retryer:      aws.NopRetryer{},
	})
}

// plainBodies sends request bodies without their WriteTo method. The SDK closes a body once the
// answer's header has arrived, and its WriteTo then returns io.EOF. net/http takes that for a broken
// request and closes the connection, from which the answer is still being read. With a nearby server
// like this one, that happens to about one in a hundred answers of more than 4 KB (aws-sdk-go-v2
// issue 1825).
type plainBodies struct{ http.RoundTripper }

func (p plainBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r = r.WithContext(r.Context())
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.RoundTripper.RoundTrip(r)
}

// Each runs a test twice, with the embedded DynamoDB and with DynamoDB Local, each time
// with a table of its own.
func Each(t *testing.T, test func(t *testing.T, client *dynamodb.Client, table string)) {
	t.Helper()
	for name, connect := range map[string]func(testing.TB) *dynamodb.Client{"embedded": Embedded, "local": Local} {
		t.Run(name, func(t *testing.T) {
			client := connect(t)
			test(t, client, CreateTable(t, client))
		})
	}
}

// CreateTable creates an on-demand table with the product's keys (pool_group, node_id) and
// a unique name, and deletes it when the test ends.
func CreateTable(tb testing.TB, client *dynamodb.Client) string {
	tb.Helper()
	name := "nodelease-test-" + uuid.NewString()
	_, err := client.CreateTable(tb.Context(), &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pool_group"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("node_id"), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pool_group"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("node_id"), KeyType: types.KeyTypeRange},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// The test's own context has already ended.
		if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			tb.Error(err)
		}
	})
	return name
}

// ItemBytes returns an item's size as DynamoDB counts it: names and strings count their bytes, a
// number one byte for each two digits plus one, and a map three bytes plus one for each pair.
func ItemBytes(item map[string]types.AttributeValue) (n int) {
	for name, av := range item {
		n += len(name)
		switch v := av.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += (len(v.Value)+1)/2 + 1
		case *types.AttributeValueMemberBOOL:
			n++
		case *types.AttributeValueMemberM:
			n += 3 + len(v.Value) + ItemBytes(v.Value)
		}
	}
	return n
}
