package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// release sends no write for a version that the node ID does not have yet, since a process may
// claim the node ID with that version meanwhile. A dry run sends no write at all.
func TestReleaseOfALaterVersion(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 2)
	to, err := url.Parse(aws.ToString(client.Options().BaseEndpoint))
	if err != nil {
		t.Fatal(err)
	}
	var writes atomic.Int64
	proxy := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "UpdateItem") {
			writes.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"release 0 --version 1 --dry-run", 1, "has version 0 by now, not 1: look again whose it is"},
		{"release 0 --version 1", 1, "has version 0 by now, not 1: look again whose it is"},
		{"release 0 --version 0 --dry-run", 0, "node 0 is free already"},
	} {
		code, stdout, stderr := call(slices.Concat(strings.Fields(c.args), []string{"--table", w.table, "--pool", "orders", "--endpoint", server.URL})...)
		if n := writes.Load(); code != c.code || !strings.Contains(stdout+stderr, c.want) || n != 0 {
			t.Errorf("%s: got exit code %d, %q and %d writes, want %d, %q and none", c.args, code, stdout+stderr, n, c.code, c.want)
		}
	}
}

// A raise that was cut off says that the pool must not be used yet. The error alone only says why.
func TestRaiseThatIsNotComplete(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 4)
	to, err := url.Parse(aws.ToString(client.Options().BaseEndpoint))
	if err != nil {
		t.Fatal(err)
	}
	var raised, pool atomic.Int64
	proxy := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		write := strings.HasSuffix(r.Header.Get("X-Amz-Target"), "UpdateItem")
		if write && (bytes.Contains(body, []byte(`"orders#0"`)) && raised.Add(1) > 2 || bytes.Contains(body, []byte(`"orders"`)) && pool.Add(1) == 2) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","message":"not authorized"}`))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	args := []string{"raise", "--yes", "--table", w.table, "--pool", "orders", "--endpoint", server.URL}
	if code, _, stderr := call(args...); code != codeAccess || !strings.Contains(stderr, "pool orders is raised in part only (0 node IDs)") {
		t.Errorf("after the pool's item: got exit code %d, %q, want %d and the number of node IDs", code, stderr, codeAccess)
	}
	if code, _, stderr := call(args...); code != codeAccess || !strings.Contains(stderr, "pool orders is raised in part only (2 node IDs): run it again before any process starts") {
		t.Errorf("got exit code %d, %q, want %d and the number of node IDs", code, stderr, codeAccess)
	}
	raised.Store(-10)
	if code, stdout, stderr := call(args...); code != 0 || strings.Contains(stderr, "in part") {
		t.Errorf("got exit code %d, %q, %q, want 0", code, stdout, stderr)
	}
}
