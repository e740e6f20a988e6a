package dynamocoordinator_test

import (
	"errors"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
)

// Whatever the client, an answer that is not from DynamoDB is not taken for a successful
// heartbeat, an empty cluster or a successful publication. An answer without the
// requested item is not taken for a refusal.
func TestAnswerOfSomebodyElse(t *testing.T) {
	named, body := false, "{}"
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if named {
			w.Header().Set("X-Amzn-Requestid", "1")
			w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte("{}"))), 10))
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(proxy.Close)
	tab := dynamocoordinator.New(dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &proxy.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), Retryer: aws.NopRetryer{},
	}), "leases")
	self := cluster.Member{Cluster: "orders", Name: "a", NodeID: cluster.NoNodeID, SessionID: "s", Version: 1}
	if snap, err := tab.Heartbeat(t.Context(), cluster.Beat{Self: self, At: time.Now(), Timeout: timeout}); !errors.Is(err, protocol.ErrNotDynamoDB) {
		t.Errorf("Heartbeat returned %v and %v, want ErrNotDynamoDB", snap, err)
	}
	if err := tab.Publish(t.Context(), self, 1, cluster.Versions{}); !errors.Is(err, protocol.ErrNotDynamoDB) {
		t.Errorf("Publish returned %v, want ErrNotDynamoDB", err)
	}
	if known, err := tab.Known(t.Context(), "orders"); !errors.Is(err, protocol.ErrNotDynamoDB) {
		t.Errorf("Known returned %v and %v, want ErrNotDynamoDB", known, err)
	}
	named = true
	if err := tab.Publish(t.Context(), self, 1, cluster.Versions{}); !errors.Is(err, protocol.ErrNotDynamoDB) {
		t.Errorf("Publish returned %v for an answer without an item, want ErrNotDynamoDB", err)
	}
	// An answer that contains an item, but lacks DynamoDB's headers or was damaged, is
	// not accepted either.
	body = `{"Attributes":{"pool_group":{"S":"orders#node"},"node_id":{"N":"1"},"session_id":{"S":"s"},"version":{"N":"1"}}}`
	for _, named = range []bool{false, true} {
		if snap, err := tab.Heartbeat(t.Context(), cluster.Beat{Self: self, At: time.Now(), Timeout: timeout}); !errors.Is(err, protocol.ErrNotDynamoDB) {
			t.Errorf("Heartbeat returned %v and %v for an item with DynamoDB's headers: %v, want ErrNotDynamoDB", snap, err, named)
		}
		if err := tab.Publish(t.Context(), self, 1, cluster.Versions{}); !errors.Is(err, protocol.ErrNotDynamoDB) {
			t.Errorf("Publish returned %v for an item with DynamoDB's headers: %v, want ErrNotDynamoDB", err, named)
		}
	}
}
