package protocol

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// ErrArgument is returned if a required argument is nil.
var ErrArgument = errors.New("lease: nil argument")

// CheckContext returns an error for a nil context. Exported functions that take a context
// call it, directly or through another function, before anything else.
func CheckContext(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: the context is nil: use context.Background()", ErrArgument)
	}
	return nil
}

// IsNil reports whether v is nil, or an interface with a nil pointer in it.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// Checked returns the client to use for a request with ctx. If client is nil, as in a
// zero [DynamoDB], or if ctx is nil, every request of the returned client fails.
func Checked(ctx context.Context, client Client) Client {
	if IsNil(client) {
		return noClient{fmt.Errorf("%w: the store has no client: lease.OpenClient returns one", ErrArgument)}
	}
	if err := CheckContext(ctx); err != nil {
		return noClient{err}
	}
	return client
}

type noClient struct{ err error }

func (n noClient) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return nil, n.err
}

func (n noClient) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return nil, n.err
}

func (n noClient) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return nil, n.err
}

func (n noClient) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return nil, n.err
}
