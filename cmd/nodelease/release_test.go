package main

import (
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
