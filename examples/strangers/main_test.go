package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
)

// without is a server without a network, so that virtual time passes.
type without struct{ http.Handler }

func (w without) Do(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	// net/http's server adds it; agents compare their clock with it.
	answer.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	w.ServeHTTP(answer, r)
	return answer.Result(), nil
}

func TestStrangers(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		server, err := embeddeddb.New(embeddeddb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		client := dynamodb.New(dynamodb.Options{
			Region: "us-east-1", BaseEndpoint: aws.String("http://table"), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
			HTTPClient: without{server}, Retryer: aws.NopRetryer{},
		})
		var out strings.Builder
		err = run(t.Context(), client, dynamotest.CreateTable(t, client), &out)
		t.Log(out.String())
		if err != nil {
			t.Fatal(err)
		}
	})
}
