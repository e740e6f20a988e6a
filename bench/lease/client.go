package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/uuid"
)

// newClient makes a client of DynamoDB Local whose requests m counts. One client
// serves a whole herd.
func newClient(endpoint string, m *meter) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: &endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider("bench", "bench", ""),
		HTTPClient:   &http.Client{Transport: counting{&http.Transport{MaxIdleConnsPerHost: 128, MaxConnsPerHost: 128}, m}},
		APIOptions:   []func(*middleware.Stack) error{capacity(m)},
	})
}

// counting counts the requests that leave the process, and how many of them are refused. A
// request that is canceled while it waits for a connection does not leave the process.
type counting struct {
	next http.RoundTripper
	m    *meter
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	_, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if name == "CreateTable" {
		return c.next.RoundTrip(r)
	}
	if r.Body != nil { // hide the WriteTo method of the body: see internal/testkit/dynamotest
		r = r.Clone(ctx)
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	var sent atomic.Bool
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent.Store(true) }}))
	resp, err := c.next.RoundTrip(r)
	refused := false
	if err == nil && resp.StatusCode == http.StatusBadRequest {
		var body []byte
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		refused = bytes.Contains(body, []byte("ConditionalCheckFailed"))
	}
	if err == nil || sent.Load() {
		c.m.operation(ctx, name, refused)
	}
	return resp, err
}

// capacity makes DynamoDB report the consumed capacity in each answer. Answers to refused
// writes do not contain it.
func capacity(m *meter) func(*middleware.Stack) error {
	return func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("Capacity", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			switch p := in.Parameters.(type) {
			case *dynamodb.UpdateItemInput:
				p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			case *dynamodb.PutItemInput:
				p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			case *dynamodb.GetItemInput:
				p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			case *dynamodb.QueryInput:
				p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			}
			out, md, err := next.HandleInitialize(ctx, in)
			var used *types.ConsumedCapacity
			write := false
			switch o := out.Result.(type) {
			case *dynamodb.UpdateItemOutput:
				used, write = o.ConsumedCapacity, true
			case *dynamodb.PutItemOutput:
				used, write = o.ConsumedCapacity, true
			case *dynamodb.GetItemOutput:
				used = o.ConsumedCapacity
			case *dynamodb.QueryOutput:
				used = o.ConsumedCapacity
			}
			if err == nil && used != nil {
				units := aws.ToFloat64(used.CapacityUnits)
				m.add(ctx, func(t *tally) {
					if write {
						t.writeUnits += units
					} else {
						t.readUnits += units
					}
				})
			}
			return out, md, err
		}), middleware.Before)
	}
}

// createTable makes an on-demand table with a partition key and, if sort is not empty, a
// numeric sort key.
func createTable(ctx context.Context, c *dynamodb.Client, partition, sort string) (string, error) {
	name := "bench-" + uuid.NewString()
	in := &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &partition, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: &partition, KeyType: types.KeyTypeHash}},
	}
	if sort != "" {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &sort, AttributeType: types.ScalarAttributeTypeN})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &sort, KeyType: types.KeyTypeRange})
	}
	if _, err := c.CreateTable(ctx, in); err != nil {
		return "", fmt.Errorf("a table on DynamoDB Local: %w", err)
	}
	return name, nil
}
