package sim

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// client is the SDK's, over connections in memory.
func (p *process) client() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: cmp.Or(p.region, "us-east-1"), Retryer: retry.NewStandard(), Credentials: aws.AnonymousCredentials{},
		APIOptions: []func(*middleware.Stack) error{endpoint(p.host).plain},
		HTTPClient: &http.Client{Transport: &wire{p, p.line()}},
	})
}

// endpoint is where a machine's requests go: the network tells them apart by its name.
type endpoint string

// plain leaves out of requests what neither the database nor a judge reads, the signature
// and the headers that name the client, and the search for the endpoint: they would be a
// third of all the work in a world.
func (e endpoint) plain(s *middleware.Stack) error {
	for _, id := range []string{"UserAgent", "ClientRequestID", "RecursionDetection"} {
		_, _ = s.Build.Remove(id) // some requests have fewer
	}
	for _, id := range []string{"ResolveAuthScheme", "GetIdentity", "ComputePayloadHash", "setLegacyContextSigningOptions", "Signing"} {
		_, _ = s.Finalize.Remove(id)
	}
	_, err := s.Finalize.Swap("ResolveEndpointV2", e)
	return err
}

func (e endpoint) ID() string { return "ResolveEndpointV2" }

func (e endpoint) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	r, ok := in.Request.(*smithyhttp.Request)
	if !ok {
		return middleware.FinalizeOutput{}, middleware.Metadata{}, fmt.Errorf("a request of the type %T", in.Request)
	}
	r.URL.Scheme, r.URL.Host = "http", string(e)
	return next.HandleFinalize(ctx, in)
}
