package protocol

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// The text of any error on the way to DynamoDB names the table and the remedy, and is not
// the text of the SDK. errors.As still finds the original error.
func TestExplain(t *testing.T) {
	sdk := func(err error) error {
		return &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "GetItem", Err: err}
	}
	post := func(err error) error {
		return &url.Error{Op: "Post", URL: "https://127.0.0.1:8000/", Err: err}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"an unknown name":  {sdk(post(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nosuch.invalid"}})), `"nosuch.invalid" has no address`},
		"nobody there":     {sdk(post(&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: errors.New("refused")})), "nothing answers at 127.0.0.1:1: refused"},
		"TLS and none":     {sdk(post(errors.New("server gave HTTP response to HTTPS client"))), "no answer: Post"},
		"another server":   {sdk(&smithy.DeserializationError{Err: errors.New("invalid character '<'")}), "what answered is not DynamoDB"},
		"a throttle":       {sdk(&types.ProvisionedThroughputExceededException{Message: new("slow down")}), "slow down"},
		"no credentials":   {sdk(errors.New("get identity: get credentials: no EC2 IMDS role found, operation error ec2imds: GetMetadata, 403")), "no AWS credentials (no EC2 IMDS role found): give the task a role"},
		"no table":         {sdk(&types.ResourceNotFoundException{}), `table "leases" does not exist`},
		"a missing Region": {sdk(errors.New("not found, ResolveEndpointV2: Missing Region")), "set AWS_REGION"},
	} {
		got := explain(c.err, "GetItem", "leases")
		if text := got.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "operation error") || strings.Contains(text, "<nil>") {
			t.Errorf("%s: %v", name, got)
		}
		if was, is := Reason(c.err), Reason(got); was != is && !errors.Is(got, ErrAccess) && !errors.Is(got, ErrTable) {
			t.Errorf("%s: the reason was %s, is %s", name, was, is)
		}
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if got := explain(sdk(post(ended)), "GetItem", "leases"); !errors.Is(got, ended) || strings.Contains(got.Error(), "check the endpoint") {
			t.Errorf("got %v, want the cause, and no advice about the endpoint", got)
		}
	}
}

// If credentials are slow to come, that does not mean that there are none. If there is no
// source of credentials, the last one that the SDK tries, a virtual machine's role, may be
// slow too.
func TestSlowCredentials(t *testing.T) {
	for text, permanent := range map[string]bool{
		"get identity: get credentials: failed to refresh cached credentials": false,
		"get credentials: no EC2 IMDS role found, operation error ec2imds":    true,
	} {
		for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
			err := explain(&smithy.OperationError{ServiceID: "DynamoDB", OperationName: "UpdateItem", Err: fmt.Errorf("%s, %w", text, end)}, "UpdateItem", "leases")
			if Permanent(err) != permanent || !permanent && !errors.Is(err, end) {
				t.Errorf("%s: got %v (permanent %v), want permanent %v", text, err, Permanent(err), permanent)
			}
		}
	}
}

// A table that does not exist may still be created, but a table with other keys stays wrong.
func TestErrorsThatMayPass(t *testing.T) {
	api := func(code, message string) error { return &smithy.GenericAPIError{Code: code, Message: message} }
	for _, c := range []struct {
		err  error
		want bool
	}{
		{api("ResourceNotFoundException", ""), true}, {api("AccessDeniedException", ""), true}, {api("ExpiredTokenException", ""), true},
		{api("ValidationException", "The provided key element does not match the schema"), false},
	} {
		got := explain(c.err, "GetItem", "leases")
		if Passing(got) != c.want || !Permanent(got) || !errors.Is(got, ErrTable) && !errors.Is(got, ErrAccess) {
			t.Errorf("%v: got passing %v, permanent %v; want passing %v", got, Passing(got), Permanent(got), c.want)
		}
	}
}
