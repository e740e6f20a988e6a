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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// bareEnvironment takes everything away that the SDK could find.
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
	a, err := lease.Start(t.Context(), lease.Config{Logger: slog.New(slog.DiscardHandler)}) // the rest from the environment
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

// Nothing listens there: the error says where, and what to check.
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

// A thousand starts that fail, as in a loop around Start, leave nothing behind:
// neither goroutines nor connections nor memory.
func TestStartsThatFailLeaveNothing(t *testing.T) {
	bareEnvironment(t)
	client := dynamotest.Embedded(t)
	var open atomic.Int64 // connections of the server
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
				t.Fatal(err)
			}
		}
		for began := time.Now(); open.Load() > 0; runtime.Gosched() { // the last ones may be on their way
			if time.Since(began) > 10*time.Second {
				t.Fatalf("%d connections are open after %d starts that failed", open.Load(), times)
			}
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() // the proxy's
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

// closedBody is a body of the SDK after it was closed: WriteTo says io.EOF.
type closedBody struct{ io.ReadCloser }

func (closedBody) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }

// A body that the SDK has closed breaks no connection under an answer that is still
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
