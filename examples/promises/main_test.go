package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// without calls a server without a network, so that virtual time passes.
type without struct{ http.Handler }

func (w without) Do(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	return answer.Result(), nil
}

func TestPromises(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		server, err := embeddeddb.New(embeddeddb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		open := func(d doer) *dynamodb.Client {
			return dynamodb.New(dynamodb.Options{
				Region: "us-east-1", BaseEndpoint: aws.String("http://table"), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
				HTTPClient: d, Retryer: aws.NopRetryer{},
			})
		}
		var out strings.Builder
		c := &check{ttl: lease.DefaultTTL, open: open, send: without{server}, out: &out}
		c.table = dynamotest.CreateTable(t, open(c.send))
		err = c.promises(t.Context())
		t.Log(out.String())
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "holds: "); n != 31 {
			t.Errorf("%d sentences hold, want 31", n)
		}
	})
}

// With an endpoint on this machine, the program needs neither a Region nor credentials, as the page of the examples says.
func TestWithoutAWS(t *testing.T) {
	server := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, server)
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	none := filepath.Join(t.TempDir(), "none")
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, none)
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", *server.Options().BaseEndpoint)
	open, err := clients(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(http.DefaultClient).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table}); err != nil {
		t.Errorf("without a Region and credentials: %v", err)
	}
}
