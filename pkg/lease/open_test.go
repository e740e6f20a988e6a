package lease_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// bareEnvironment removes all configuration that the SDK could find.
func bareEnvironment(t *testing.T) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
}

// A loopback endpoint needs neither Region nor credentials.
func TestLoopbackNeedsNothing(t *testing.T) {
	bareEnvironment(t)
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	endpoint := *client.Options().BaseEndpoint
	store, err := lease.Open(t.Context(), table, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
	t.Setenv("NODELEASE_TABLE", table)
	t.Setenv("NODELEASE_POOL", "orders")
	a, err := lease.Start(t.Context(), lease.Config{Logger: slog.New(slog.DiscardHandler)}) // all other settings are from the environment
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestNoCredentials(t *testing.T) {
	bareEnvironment(t)
	cfg := fixture.Config(nil)
	cfg.Table = "leases"
	if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrAccess) || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("no Region: %v", err)
	}
	t.Setenv("AWS_REGION", "eu-west-1")
	if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrAccess) || !strings.Contains(err.Error(), "no AWS credentials") {
		t.Errorf("no credentials: %v", err)
	}
}

func TestEndpointIsChecked(t *testing.T) {
	for _, endpoint := range []string{"localhost:8000", "ftp://127.0.0.1", "http://", "::"} {
		if _, err := lease.Open(t.Context(), "leases", endpoint); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:8000") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

// If nothing listens at the endpoint, the error names the address and the remedy.
func TestNobodyAnswers(t *testing.T) {
	cfg := fixture.Config(nil)
	store, err := lease.Open(t.Context(), "leases", "http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store = store
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := lease.Start(ctx, cfg); err == nil || !strings.Contains(err.Error(), "nothing answers at 127.0.0.1:1") || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL_DYNAMODB") {
		t.Error(err)
	}
}

// A thousand failed starts, such as a loop around Start may cause, leave no goroutines,
// connections or memory behind.
func TestStartsThatFailLeaveNothing(t *testing.T) {
	bareEnvironment(t)
	client := dynamotest.Embedded(t)
	var open atomic.Int64 // the server's open connections
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forward(t, client, w, r) }))
	proxy.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	proxy.Start()
	defer proxy.Close()
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", proxy.URL)
	t.Setenv("NODELEASE_TABLE", dynamotest.CreateTable(t, client))
	t.Setenv("NODELEASE_POOL", "orders")
	fail := func(times int) (goroutines int, heap uint64) {
		for range times {
			if _, err := lease.Start(t.Context(), lease.Config{Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, lease.ErrPoolNotSeeded) {
				t.Fatalf("got %v, want lease.ErrPoolNotSeeded", err)
			}
		}
		for began := time.Now(); open.Load() > 0; runtime.Gosched() { // the last connections may be closing
			if time.Since(began) > 10*time.Second {
				t.Fatalf("%d connections are open after %d starts that failed", open.Load(), times)
			}
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() // the proxy's connections
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		return runtime.NumGoroutine(), mem.HeapAlloc
	}
	before, heapBefore := fail(100)
	after, heapAfter := fail(1000)
	if after > before+20 || heapAfter > heapBefore+8<<20 {
		t.Errorf("got %d goroutines and %d bytes after 1,000 starts, before them %d and %d", after, heapAfter, before, heapBefore)
	}
}

// closedBody is a request body that behaves like a body of the SDK after it was closed:
// WriteTo returns io.EOF.
type closedBody struct{ io.ReadCloser }

func (closedBody) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }

// A body that the SDK has closed does not break the connection while the answer is still
// being read.
func TestAnswersAreReadWhole(t *testing.T) {
	bareEnvironment(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	client, err := lease.OpenClient(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	const body = "a request"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, closedBody{io.NopCloser(strings.NewReader(body))})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	res, err := client.Options().HTTPClient.Do(req)
	if err != nil {
		t.Fatalf("the body's WriteTo was used: %v", err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != body {
		t.Errorf("got %q, %v, want %q", got, err, body)
	}
}

// The following tests are for errors of a start that concern the table or DynamoDB's
// answers.

func TestMissingTable(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, _ string) {
		_, err := lease.Start(t.Context(), fixture.Config(lease.NewDynamoDB(client, "no-such-table")))
		if !errors.Is(err, lease.ErrTable) || !strings.Contains(err.Error(), `"no-such-table" does not exist`) {
			t.Errorf("got %v, want lease.ErrTable", err)
		}
	})
}

func TestWrongKeys(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
		name := table + "-other"
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &name, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
		if _, err := lease.Start(t.Context(), fixture.Config(lease.NewDynamoDB(client, name))); !errors.Is(err, lease.ErrTable) || !strings.Contains(err.Error(), "pk S HASH") {
			t.Errorf("got %v, want lease.ErrTable", err)
		}
	})
}

// described is a client that changes the description of the table.
type described struct {
	*dynamodb.Client
	change func(*types.TableDescription)
}

func (d *described) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := d.Client.DescribeTable(ctx, in, o...)
	if err == nil && d.change != nil {
		d.change(out.Table)
	}
	return out, err
}

func TestReplication(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
		t.Fatal(err)
	}
	replicas := []types.ReplicaDescription{{RegionName: aws.String("eu-west-1")}}
	for _, c := range []struct {
		name   string
		change func(*types.TableDescription)
		unsafe bool
	}{
		{"one Region", nil, false},
		{"MREC", func(d *types.TableDescription) { d.Replicas = replicas }, true},
		{"one Region, which lists itself", func(d *types.TableDescription) {
			d.TableArn, d.Replicas = aws.String("arn:aws:dynamodb:eu-west-1:111111111111:table/t"), replicas
		}, false},
		{"itself and another Region", func(d *types.TableDescription) {
			d.TableArn = aws.String("arn:aws:dynamodb:eu-west-1:111111111111:table/t")
			d.Replicas = append(slices.Clone(replicas), types.ReplicaDescription{RegionName: aws.String("eu-west-2")})
		}, true},
		{"a replica, and no Region in the ARN", func(d *types.TableDescription) {
			d.TableArn, d.Replicas = nil, replicas
		}, true},
		{"MREC by name", func(d *types.TableDescription) {
			d.Replicas, d.MultiRegionConsistency = replicas, types.MultiRegionConsistencyEventual
		}, true},
		{"MRSC", func(d *types.TableDescription) {
			d.Replicas, d.MultiRegionConsistency = replicas, types.MultiRegionConsistencyStrong
		}, false},
	} {
		a, err := lease.Start(t.Context(), fixture.Config(lease.NewDynamoDB(&described{Client: client, change: c.change}, table)))
		if errors.Is(err, lease.ErrUnsafeReplication) != c.unsafe || err == nil == c.unsafe {
			t.Errorf("%s: %v", c.name, err)
		}
		if a != nil {
			_ = a.Close()
		}
	}
}

// Start handles each error of AWS. If no retry fixes the error, Start returns at once and
// names the remedy; otherwise it retries.
func TestAWSErrors(t *testing.T) {
	type answer struct {
		status  int
		code    string
		message string
	}
	for _, c := range []struct {
		name   string
		op     string // the call that gets the answer
		answer answer
		want   error // nil if the call is retried
		text   string
	}{
		{"denied", "GetItem", answer{400, "AccessDeniedException", "User: arn:aws:iam::1:role/r is not authorized to perform: dynamodb:GetItem"}, lease.ErrAccess, "GrantLease"},
		{"expired token", "GetItem", answer{400, "ExpiredTokenException", "The security token included in the request is expired"}, lease.ErrAccess, "expired: get new credentials"},
		{"bad keys", "GetItem", answer{400, "UnrecognizedClientException", "The security token included in the request is invalid."}, lease.ErrAccess, "invalid.: check the credentials"},
		{"wrong keys", "GetItem", answer{400, "ValidationException", "The provided key element does not match the schema"}, lease.ErrTable, "pool_group"},
		{"no table", "DescribeTable", answer{400, "ResourceNotFoundException", "Requested resource not found"}, lease.ErrTable, "does not exist"},
		{"nonsense", "UpdateItem", answer{400, "ValidationException", "Invalid UpdateExpression: Syntax error"}, lease.ErrTable, "Syntax error"},
		{"throttled", "UpdateItem", answer{400, "ProvisionedThroughputExceededException", "slow down"}, nil, ""},
		{"throttled account", "Query", answer{400, "ThrottlingException", "slow down"}, nil, ""},
		{"broken", "UpdateItem", answer{500, "InternalServerError", "oops"}, nil, ""},
		{"unavailable", "GetItem", answer{503, "ServiceUnavailable", "oops"}, nil, ""},
		{"replicated write conflict", "UpdateItem", answer{400, "ReplicatedWriteConflictException", "again"}, nil, ""},
		{"check not permitted", "DescribeTable", answer{400, "AccessDeniedException", "no"}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := dynamotest.Embedded(t)
			table := dynamotest.CreateTable(t, client)
			if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
				t.Fatal(err)
			}
			// The proxy always sends the answer if it is final, and otherwise sends it once.
			var given atomic.Int64
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+c.op) && (given.Add(1) == 1 || c.want != nil) {
					w.Header().Set("Content-Type", "application/x-amz-json-1.0")
					w.WriteHeader(c.answer.status)
					_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#` + c.answer.code + `","message":"` + c.answer.message + `"}`))
					return
				}
				forward(t, client, w, r)
			}))
			defer proxy.Close()
			a, err := lease.Start(t.Context(), fixture.Config(lease.NewDynamoDB(dynamotest.Client(t, proxy.URL), table)))
			if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want %v with %q", err, c.want, c.text)
			}
			want := int64(1)
			if c.op == "GetItem" { // a GetItem for a hint card and another for the pool's item
				want = 2
			}
			if c.want != nil && given.Load() != want {
				t.Errorf("tried %d times, want %d", given.Load(), want)
			}
			if a != nil {
				_ = a.Close()
			}
		})
	}
}

// forward sends a request on to the client's endpoint.
func forward(t *testing.T, client *dynamodb.Client, w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, *client.Options().BaseEndpoint, r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header = r.Header
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	for k, v := range res.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
}

// What DynamoDB reports about a throttled request appears in events and logs: the limit
// as one word, and the reason and the remedy in the error.
func TestThrottlesSayWhichLimit(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
		t.Fatal(err)
	}
	answers := []string{
		`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow","ThrottlingReasons":[{"reason":"TableWriteKeyRangeThroughputExceeded","resource":"arn:aws:dynamodb:eu-west-1:1:table/leases"}]}`,
		`{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow","throttlingReasons":[{"reason":"TableWriteMaxOnDemandThroughputExceeded","resource":"arn:aws:dynamodb:eu-west-1:1:table/leases"}]}`,
		`{"__type":"com.amazonaws.dynamodb.v20120810#RequestLimitExceeded","message":"slow","ThrottlingReasons":[{"reason":"TableWriteAccountLimitExceeded","resource":"arn:aws:dynamodb:eu-west-1:1:table/leases"}]}`,
		`{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow"}`,
	}
	var given atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
			if n := int(given.Add(1)); n <= len(answers) {
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(answers[n-1]))
				return
			}
		}
		forward(t, client, w, r)
	}))
	defer proxy.Close()
	lines, events := make(lineWriter, 100), make(chan lease.Event, 100)
	cfg := fixture.Config(lease.NewDynamoDB(dynamotest.Client(t, proxy.URL), table))
	cfg.Logger = slog.New(slog.NewTextHandler(lines, nil))
	cfg.OnEvent = func(e lease.Event) {
		if e.Kind == lease.EventUnanswered {
			events <- e
		}
	}
	a, err := lease.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for i, want := range []string{"hot_key", "table", "account", ""} {
		e := <-events
		if e.Throttled != want || e.Reason != "throttled" {
			t.Errorf("event %d: %q, %q, want throttled, %q: %v", i, e.Reason, e.Throttled, want, e.Err)
		}
		if i == 0 && !strings.Contains(e.Err.Error(), "TableWriteKeyRangeThroughputExceeded arn:aws:dynamodb:eu-west-1:1:table/leases") {
			t.Errorf("%v does not name the reason", e.Err)
		}
		line := <-lines
		for !strings.Contains(line, "event=unanswered") {
			line = <-lines
		}
		if strings.Contains(line, " throttled=") != (want != "") || !strings.Contains(line, "throttled="+want) && want != "" {
			t.Errorf("the log says %s, want the limit %q", line, want)
		}
	}
}

// lineWriter is a writer for a log. It sends each line to a channel.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
