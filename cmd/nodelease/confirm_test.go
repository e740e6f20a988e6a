package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// A command that waits for its user ends when its time is over, as every command does.
func TestQuestionEndsWithTheCommand(t *testing.T) {
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"seed", "--size", "2"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	for _, args := range []string{"raise --timeout 300ms", "id - --timeout 300ms"} {
		stdin, typed := io.Pipe()
		var stdout, stderr bytes.Buffer
		done := make(chan int, 1)
		go func() { done <- run(append(strings.Fields(args), flags...), stdin, &stdout, &stderr) }()
		select {
		case code := <-done:
			if code != codeNoAnswer || !strings.Contains(stderr.String(), "not done within --timeout 300ms") {
				t.Errorf("%s: got exit code %d, %s, want %d and the reason", args, code, stderr.String(), codeNoAnswer)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: it still waits", args)
		}
		if err := typed.Close(); err != nil {
			t.Error(err)
		}
	}
}

// asked is a user who answers yes, after something else has happened.
type asked struct{ first func() }

func (a asked) Read(b []byte) (int, error) {
	a.first()
	return copy(b, "y\n"), nil
}

// resize retires no node IDs that it has not shown: if someone else resizes the pool while
// the user thinks about the question, nothing is done.
func TestResizeOfAnotherSizeThanShown(t *testing.T) {
	flags := database(t, "leases")
	for _, args := range []string{"seed --size 8", "resize --size 4 --yes"} {
		if code, _, stderr := call(append(strings.Fields(args), flags...)...); code != 0 {
			t.Fatal(stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"resize", "--size", "2"}, flags...), asked{func() {
		if code, _, stderr := call(append([]string{"resize", "--size", "16"}, flags...)...); code != 0 {
			t.Error(stderr)
		}
	}}, &stdout, &stderr)
	if want := "was resized to 16 meanwhile, and nothing was done"; code != 1 || !strings.Contains(stderr.String(), want) {
		t.Errorf("got exit code %d, %s%s, want 1 and %q", code, stdout.String(), stderr.String(), want)
	}
	if _, out, _ := call(append([]string{"list"}, flags...)...); !strings.Contains(out, "16 node IDs: 0 held, 16 free") {
		t.Errorf("got %s, want 16 node IDs in use", out)
	}
}

// resize asks no question before it grows a pool. If someone else makes the pool larger than
// that after resize has read it, resize retires nothing.
func TestResizeBesideALargerResize(t *testing.T) {
	for nth := range int64(4) { // the other resize follows this read of the pool's item
		flags := database(t, "leases")
		if code, _, stderr := call(append([]string{"seed", "--size", "8"}, flags...)...); code != 0 {
			t.Fatal(stderr)
		}
		to, err := url.Parse(flags[1])
		if err != nil {
			t.Fatal(err)
		}
		var reads atomic.Int64
		proxy := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			proxy.ServeHTTP(w, r)
			if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "GetItem") && reads.Add(1) == nth+1 {
				if code, _, stderr := call(append([]string{"resize", "--size", "16"}, flags...)...); code != 0 {
					t.Error(stderr)
				}
			}
		}))
		code, stdout, stderr := call(append([]string{"resize", "--size", "12", "--endpoint", server.URL}, flags[2:]...)...)
		server.Close()
		if _, out, _ := call(append([]string{"list"}, flags...)...); reads.Load() <= nth || !strings.Contains(out, "16 node IDs: 0 held, 16 free") {
			t.Errorf("after read %d of %d: got %s, want 16 node IDs in use; resize: exit code %d, %s%s", nth+1, reads.Load(), out, code, stdout, stderr)
		}
	}
}

// A dry run of a resize counts what the resize then does, in a narrow pool too, whose width
// may have room for node IDs that nobody has created yet.
func TestDryRunOfANarrowResize(t *testing.T) {
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"seed", "--size", "200", "--narrow"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	for _, args := range []string{"resize --size 300 --dry-run", "resize --size 300"} {
		code, stdout, stderr := call(append(strings.Fields(args+" --json"), flags...)...)
		if want := `"seeded":100,`; code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: got exit code %d, %s%s, want %s", args, code, stdout, stderr, want)
		}
	}
}

// raise raises to the time that it has shown, or not at all: while the user thinks about the
// question, that time may pass.
func TestRaiseToATimeThatHasPassed(t *testing.T) {
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"seed", "--size", "2"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	var stdout, stderr bytes.Buffer
	to := time.Now().Add(2 * time.Second)
	code := run(append([]string{"raise", "--to", strconv.FormatInt(to.UnixMilli(), 10)}, flags...), asked{func() { <-time.After(time.Until(to)) }}, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "has passed meanwhile, and nothing was done") {
		t.Errorf("got exit code %d, %s%s, want 1 and the reason", code, stdout.String(), stderr.String())
	}
	if code, _, stderr := call(append([]string{"raise", "--to", "now", "--yes"}, flags...)...); code != 0 {
		t.Errorf("--to now: got exit code %d, %s, want 0", code, stderr)
	}
}

// raise creates missing node IDs, and says so, as its dry run does.
func TestRaiseOfMissingNodeIDs(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 6)
	if _, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &w.table, Key: map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: "orders"}, "node_id": &types.AttributeValueMemberN{Value: "-1"}},
		UpdateExpression: aws.String("SET pool_size = :size"), ExpressionAttributeValues: map[string]types.AttributeValue{":size": &types.AttributeValueMemberN{Value: "8"}},
	}); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"raise --dry-run --json": `"seeded":2,`,
		"raise --dry-run":        "6 node IDs to raise, 2 missing to make.",
	} {
		if code, stdout, stderr := call(append(strings.Fields(args), "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: got exit code %d, %s%s, want %q", args, code, stdout, stderr, want)
		}
	}
	code, stdout, stderr := call("raise", "--yes", "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")
	if code != 0 || !strings.HasPrefix(stdout, "6 node IDs of pool orders raised to ") || !strings.Contains(stdout, ", 2 missing made;") {
		t.Errorf("got exit code %d, %s%s, want that 2 were made", code, stdout, stderr)
	}
}
