package discovery

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Whatever the client, an answer that is not from DynamoDB is not taken for an empty list
// or a successful write. Otherwise a proxy's `{}` would hide all instances.
func TestAnswerOfSomebodyElse(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(proxy.Close)
	s := NewTable(dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &proxy.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), Retryer: aws.NopRetryer{},
	}), "leases")
	const partition = "orders#svc#orders"
	if all, err := s.Query(t.Context(), partition); !errors.Is(err, protocol.ErrNotDynamoDB) {
		t.Errorf("query returned %v and %v, want ErrNotDynamoDB", all, err)
	}
	if r, err := s.Get(t.Context(), partition, 7); !errors.Is(err, protocol.ErrNotDynamoDB) {
		t.Errorf("get returned %v and %v, want ErrNotDynamoDB", r, err)
	}
	if _, applied, err := s.Write(t.Context(), partition, record{NodeID: 7, Version: 1}); applied || !errors.Is(err, protocol.ErrNotDynamoDB) {
		t.Errorf("write returned %v and %v, want ErrNotDynamoDB", applied, err)
	}
}
