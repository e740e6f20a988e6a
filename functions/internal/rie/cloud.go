package rie

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
)

// Cloud replaces the two services other than DynamoDB to which the functions send requests:
// CloudFormation, which waits for an answer, and CloudWatch. It keeps the requests.
type Cloud struct {
	URL    string
	server http.Server

	mu      sync.Mutex
	answers []json.RawMessage
	metrics []string
}

// NewCloud returns a Cloud that listens until Close.
func NewCloud() (*Cloud, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cloud{URL: "http://" + l.Addr().String()}
	c.server = http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.server.Serve(l) }() // until Close
	return c, nil
}

// Close stops listening.
func (c *Cloud) Close() error { return c.server.Close() }

// Redirect replaces the address for the answer in an event of CloudFormation by url. It
// returns other events unchanged.
func Redirect(event []byte, url string) []byte {
	var fields map[string]any
	if json.Unmarshal(event, &fields) != nil || fields["ResponseURL"] == nil {
		return event
	}
	fields["ResponseURL"] = url
	out, err := json.Marshal(fields)
	if err != nil {
		return event
	}
	return out
}

// Answers returns the answers sent to CloudFormation, in order.
func (c *Cloud) Answers() []json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]json.RawMessage(nil), c.answers...)
}

// Metrics returns the metrics sent to CloudWatch, as lines such as "Nodelease Table=leases
// Pool=orders Held 3 Count".
func (c *Cloud) Metrics() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.metrics...)
}

// ServeHTTP implements [http.Handler].
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.Method == http.MethodPut:
		c.answers = append(c.answers, body)
	case strings.HasSuffix(r.URL.Path, "/operation/PutMetricData"):
		lines, err := decodeMetrics(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.metrics = append(c.metrics, lines...)
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		w.Header().Set("Content-Type", "application/cbor")
		_, _ = w.Write([]byte{0xa0}) // an empty map
	default:
		http.NotFound(w, r)
	}
}

func read(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// decodeMetrics reads a PutMetricData request as the SDK sends it (RPC v2 CBOR).
func decodeMetrics(body []byte) (lines []string, err error) {
	defer func() { // the request has another shape than expected
		if p := recover(); p != nil {
			err = fmt.Errorf("not a PutMetricData request: %v", p)
		}
	}()
	v, err := cbor.Decode(body)
	if err != nil {
		return nil, err
	}
	for _, m := range v.(cbor.Map)["MetricData"].(cbor.List) {
		datum := m.(cbor.Map)
		value, err := cbor.AsFloat64(datum["Value"])
		if err != nil {
			return nil, err
		}
		line := fmt.Sprint(v.(cbor.Map)["Namespace"])
		for _, d := range datum["Dimensions"].(cbor.List) {
			line += fmt.Sprintf(" %s=%s", d.(cbor.Map)["Name"], d.(cbor.Map)["Value"])
		}
		lines = append(lines, fmt.Sprintf("%s %s %v %s", line, datum["MetricName"], value, datum["Unit"]))
	}
	return lines, nil
}
