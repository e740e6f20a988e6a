package embeddeddb

import (
	"context"
	"flag"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var crowd = flag.Bool("crowd", false, "open as many connections as a hostile machine could, instead of a few")

// Requests that DynamoDB supports and this server does not are refused, and the error names the feature.
func TestRefusedByName(t *testing.T) {
	s := open(t, "")
	must(t, s, "CreateTable", createLeases)
	update := func(expression, condition string) string {
		if condition != "" {
			condition = `,"ConditionExpression":"` + condition + `"`
		}
		return `{` + leaseKey(1) + `,"UpdateExpression":"` + expression + `"` + condition + `,"ExpressionAttributeValues":{":a":{"N":"1"}}`
	}
	query := func(condition, more string) string {
		return `{"TableName":"leases","KeyConditionExpression":"` + condition + `","ExpressionAttributeValues":{":a":{"S":"p#0"}},` + more + `}`
	}
	for _, c := range []struct{ operation, body, name string }{
		{"BatchWriteItem", `{}`, `"BatchWriteItem"`},
		{"TransactWriteItems", `{}`, `"TransactWriteItems"`},
		{"DeleteItem", `{}`, `"DeleteItem"`},
		{"UpdateTimeToLive", `{}`, `"UpdateTimeToLive"`},
		{"Scan", `{"TableName":"leases","ProjectionExpression":"a"}`, `"ProjectionExpression"`},
		{"Scan", `{"TableName":"leases","TotalSegments":2}`, `"TotalSegments"`},
		{"", `{}`, `""`},
		{"CreateTable", strings.Replace(createLeases, `"BillingMode"`, `"GlobalSecondaryIndexes":[],"BillingMode"`, 1), `"GlobalSecondaryIndexes"`},
		{"CreateTable", strings.Replace(createLeases, "PAY_PER_REQUEST", "PROVISIONED", 1), "BillingMode PROVISIONED"},
		{"CreateTable", `{"TableName":7,"BillingMode":"PROVISIONED"}`, "BillingMode PROVISIONED"},
		{"UpdateItem", `{"TableName":7,"Key":7,"ReturnValues":"UPDATED_OLD"}`, "ReturnValues UPDATED_OLD"},
		{"UpdateItem", `{"TableName":"","UpdateExpression":"SET SET","ConditionExpression":"a = (b)"}`, "parentheses around an operand"},
		{"PutItem", `{"Item":{"a":{"S":"1","N":"1"}},"ConditionExpression":"a = attribute_exists(a)"}`, "the function attribute_exists in this place"},
		{"Scan", `{"Limit":"none","FilterExpression":"a OR size(a) > :b"}`, "the function size in this place"},
		{"Query", `{"Limit":0,"KeyConditionExpression":"p = if_not_exists(a, :a)"}`, "the function if_not_exists in this place"},
		{"UpdateItem", update("SET a = :a", "") + `,"Expected":{}}`, `"Expected"`},
		{"UpdateItem", update("SET #a = :a", "") + `,"ExpressionAttributeNames":{"#a":"a"}}`, `"ExpressionAttributeNames"`},
		{"UpdateItem", update("SET a = :a", "") + `,"ReturnValues":"UPDATED_NEW"}`, "ReturnValues UPDATED_NEW"},
		{"UpdateItem", update("SET a = :a", "") + `,"ReturnConsumedCapacity":"TOTAL"}`, `"ReturnConsumedCapacity"`},
		{"UpdateItem", update("ADD a :a", "") + `}`, "ADD a in this place of an expression"},
		{"UpdateItem", update("SET a = :a DELETE a :a", "") + `}`, "DELETE a in"},
		{"UpdateItem", update("SET a = b - :a", "") + `}`, "b - in"},
		{"UpdateItem", update("SET a.b = :a", "") + `}`, "a.b in"},
		{"UpdateItem", update("REMOVE a[0]", "") + `}`, "a[0 in"},
		{"UpdateItem", update("SET a = list_append(list_append(a, b), b)", "") + `}`, "the function list_append in this place"},
		{"UpdateItem", update("SET a = :a", "a IN (:a)") + `}`, "the function IN in"},
		{"UpdateItem", update("SET a = :a", "size(a) = :a") + `}`, "the function size in"},
		{"UpdateItem", update("SET a = :a", "b = size(a)") + `}`, "the function size in"},
		{"UpdateItem", update("SET a = :a", "begins_with(a, :a)") + `}`, "the function begins_with in"},
		{"UpdateItem", update("SET a = :a", "contains(a, :a)") + `}`, "the function contains in"},
		{"UpdateItem", update("SET a = :a", "attribute_type(a, :a)") + `}`, "the function attribute_type in"},
		{"PutItem", `{"TableName":"leases","Item":{"a":{"SS":["1"]}}}`, `"SS"`},
		{"PutItem", `{"TableName":"leases","Item":{"a":{"NULL":true}}}`, `"NULL"`},
		{"GetItem", `{` + leaseKey(1) + `,"ProjectionExpression":"a"}`, `"ProjectionExpression"`},
		{"Query", query("pool_group = :a", `"IndexName":"i"`), `"IndexName"`},
		{"Query", query("pool_group = :a", `"FilterExpression":"a = :a"`), `"FilterExpression"`},
		{"Query", query("pool_group = :a", `"ScanIndexForward":false`), `"ScanIndexForward"`},
		{"Query", query("pool_group = :a", `"Select":"COUNT"`), `"Select"`},
		{"Query", query("pool_group = :a AND node_id > :a", `"Limit":1`), "AND in"},
	} {
		w := call(s, c.operation, c.body)
		answer := strings.ReplaceAll(w.Body.String(), `\"`, `"`)
		if w.Code != http.StatusBadRequest || !strings.Contains(answer, "does not support") || !strings.Contains(answer, c.name) {
			t.Errorf("%s %s: %d %s, want it to name %s", c.operation, c.body, w.Code, w.Body, c.name)
		}
	}
	if got := contents(t, s); got != `{"leases":null}` {
		t.Errorf("the refused request had an effect: %s", got)
	}
}

func TestMalformed(t *testing.T) {
	s := open(t, "")
	must(t, s, "CreateTable", createLeases)
	for body, want := range map[string]string{
		`{`:               "#SerializationException",
		`{"TableName":1}`: "#SerializationException",
		`{` + leaseKey(1) + `,"ConditionExpression":""}`:                                                                       "The expression can not be empty;",
		`{` + leaseKey(1) + `,"ConditionExpression":"` + strings.Repeat("a", 5000) + `"}`:                                      "Expression size has exceeded",
		`{` + leaseKey(1) + `,"ConditionExpression":"a = b","ExpressionAttributeValues":{}}`:                                   "must not be empty",
		`{"TableName":"leases","Key":{"pool_group":{},"node_id":{"N":"1"}}}`:                                                   "exactly one of the supported datatypes",
		`{` + leaseKey(1) + `,"ConditionExpression":"a = :a","ExpressionAttributeValues":{":a":{}}}`:                           "exactly one of the supported datatypes",
		`{` + leaseKey(1) + `,"ConditionExpression":"a = :a","ExpressionAttributeValues":{":a":{"L":[{"M":{"":{"S":"x"}}}]}}}`: "Empty attribute name",
	} {
		if w := call(s, "UpdateItem", body); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.200s: %d %s, want %q", body, w.Code, w.Body, want)
		}
	}
}

func TestListen(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := open(t, "")
	for addr, want := range map[string]string{
		"0.0.0.0:0":     "not a loopback address",
		":0":            "not a loopback address",
		"[::]:0":        "not a loopback address",
		"192.0.2.1:80":  "not a loopback address",
		"example.org:0": "not a loopback address",
		"127.0.0.1":     "write it as 127.0.0.1:8000",
	} {
		if _, err := s.Listen(addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
	endpoint, err := s.Listen("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, "").Listen(strings.TrimPrefix(endpoint, "http://")); err == nil || !strings.Contains(err.Error(), "is in use: stop") {
		t.Errorf("taken port: %v", err)
	}
	if _, err := s.Listen("localhost:0"); err == nil {
		t.Error("listens twice")
	}
	r, err := http.Get(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := http.Get(endpoint); err == nil {
		t.Error("answers after Close")
	}
}

func TestListenAndServe(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	ended := make(chan error)
	go func() { ended <- ListenAndServe(ctx, "127.0.0.1:0", "", func(endpoint string) { ready <- endpoint }) }()
	<-ready
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := ListenAndServe(t.Context(), "0.0.0.0:0", "", nil); err == nil {
		t.Error("listens on all addresses")
	}
}

// The handler works over connections in memory and reads the time from the time package, so a test in
// virtual time sees virtual dates.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "")
		accept := make(chan net.Conn)
		l := pipes{accept: accept, closed: make(chan struct{})}
		server := http.Server{Handler: s}
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			accept <- theirs
			return ours, nil
		}}
		time.Sleep(1000 * time.Hour) // virtual
		r, _ := http.NewRequest(http.MethodPost, "http://dynamodb/", strings.NewReader(createLeases))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.CreateTable")
		w, err := transport.RoundTrip(r)
		if err != nil || w.StatusCode != http.StatusOK {
			t.Fatal(w, err)
		}
		w.Body.Close()
		if date, want := w.Header.Get("Date"), time.Now().UTC().Format(http.TimeFormat); date != want {
			t.Errorf("Date %q, want %q", date, want)
		}
		transport.CloseIdleConnections()
		server.Close()
		<-served
	})
}

type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }
