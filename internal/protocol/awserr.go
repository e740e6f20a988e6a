package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// refusal reports whether err is the refusal of a conditional write, and returns the item
// that did not meet the condition. The item is nil if the answer does not have it.
func refusal(err error) (attributes, bool) {
	var ccf *types.ConditionalCheckFailedException
	if !errors.As(err, &ccf) {
		return nil, false
	}
	return ccf.Item, true
}

// corruptItem reports whether a write was refused because an attribute that it
// computes with is missing or has the wrong type, or because the item would be too large.
//
// Invariant (liveness): an error that a single item causes is not mistaken for an error of the
// table, which would end starts and verbs.
func corruptItem(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "ValidationException" {
		return false
	}
	for _, text := range []string{"incorrect data type", "does not exist in the item", "Type mismatch", "significant digits", "Number overflow", "Item size"} {
		if strings.Contains(api.ErrorMessage(), text) {
			return true
		}
	}
	return false
}

const remedy = "check the endpoint (AWS_ENDPOINT_URL_DYNAMODB), AWS_REGION and the way there"

// slowCredentials reports whether a call ended while it was waiting for credentials, so
// that it is unknown whether there are any. As its last source of credentials, the SDK
// tries the role of the virtual machine; if there is no such role, it may take long to
// detect that.
func slowCredentials(err error) bool {
	text := err.Error()
	return strings.Contains(text, "get credentials") && !strings.Contains(text, "no EC2 IMDS role found") &&
		(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// explain turns an error of the SDK into one of our own. If a retry does not fix the error,
// the result wraps a sentinel and names the remedy. Any other result means "unknown
// outcome, try again".
func explain(err error, call, table string) error {
	if err == nil {
		return nil
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		if signedAtWrongTime(api) {
			return fmt.Errorf("%w: this machine's clock says %s and is off by more than five minutes, which is all that AWS takes: %s: %s: repair its time synchronization", ErrClockSkew, Stamp(time.Now()), api.ErrorCode(), api.ErrorMessage())
		}
		switch api.ErrorCode() {
		case "ResourceNotFoundException":
			return fmt.Errorf("%w: table %q does not exist in this account and Region (%s): create it with the CDK construct, or check NODELEASE_TABLE, AWS_REGION and the endpoint", errNoTable, table, call)
		case "AccessDeniedException":
			return fmt.Errorf("%w: %s on table %q: %s: %s: grant the role what pool.GrantLease grants (GetItem, Query and UpdateItem on the pool's keys)", ErrAccess, call, table, api.ErrorCode(), api.ErrorMessage())
		case "ExpiredTokenException":
			return fmt.Errorf("%w: %s on table %q: %s: %s: get new credentials, for example with aws sso login; those of a task's role are renewed by themselves", ErrAccess, call, table, api.ErrorCode(), api.ErrorMessage())
		case "UnrecognizedClientException", "InvalidSignatureException", "InvalidClientTokenId", "MissingAuthenticationTokenException", "IncompleteSignatureException":
			return fmt.Errorf("%w: %s on table %q: %s: %s: check the credentials: AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the task's role", ErrAccess, call, table, api.ErrorCode(), api.ErrorMessage())
		case "ValidationException":
			if strings.Contains(api.ErrorMessage(), "key element") || strings.Contains(api.ErrorMessage(), "key schema") {
				return fmt.Errorf("%w: table %q has other keys than pool_group (S) and node_id (N): %s: make a table of its own for Nodelease", ErrTable, table, api.ErrorMessage())
			}
			return fmt.Errorf("%w: %s on table %q was refused as invalid: %s: is the endpoint DynamoDB?", ErrTable, call, table, api.ErrorMessage())
		}
	}
	var bad *answerError
	switch text := err.Error(); {
	case errors.As(err, &bad):
		return fmt.Errorf("lease: %s on table %q: %w: %s", call, table, bad, remedy)
	case slowCredentials(err):
		return fmt.Errorf("lease: %s on table %q: %w", call, table, &answerError{"the AWS credentials did not come in time", err})
	case strings.Contains(text, "get credentials"), strings.Contains(text, "get identity"), strings.Contains(text, "no EC2 IMDS role found"):
		// Keep the part that names the failed source and the reason, but leave out the last
		// source that was tried: the role of a virtual machine adds nothing.
		_, why, _ := strings.Cut(text, "get credentials: ")
		why, _, _ = strings.Cut(why, ", operation error ec2imds")
		return fmt.Errorf("%w: %s: no AWS credentials (%s): give the task a role, set AWS_PROFILE or AWS_ACCESS_KEY_ID, or use an endpoint on 127.0.0.1, which needs none", ErrAccess, call, why)
	case strings.Contains(text, "Missing Region"), strings.Contains(text, "not found, ResolveEndpointV2") && strings.Contains(text, "egion"):
		return fmt.Errorf("%w: %s: no AWS Region: set AWS_REGION, or use an endpoint on 127.0.0.1, which needs none", ErrAccess, call)
	}
	if api != nil {
		request := ""
		if answer := interface{ ServiceRequestID() string }(nil); errors.As(err, &answer) && answer.ServiceRequestID() != "" {
			request = " (request " + answer.ServiceRequestID() + ")"
		}
		if reasons, is := throttled(err); is {
			if why := throttleReasons(reasons); why != "" {
				request = " (" + why + ")" + request
			}
			return fmt.Errorf("lease: %s on table %q was throttled: %w%s: %s", call, table, api, request, ThrottleRemedy(Limit(err)))
		}
		return fmt.Errorf("lease: %s on table %q: %w%s", call, table, api, request)
	}
	var dial *net.OpError
	var name *net.DNSError
	var sent *url.Error
	var decoded *smithy.DeserializationError
	var broken net.Error // the connection failed, not the decoding
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("lease: %s on table %q: %q has no address: %w: %s", call, table, name.Name, name, remedy)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("lease: %s on table %q: nothing answers at %v: %w: %s", call, table, dial.Addr, dial.Err, remedy)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &sent):
		return fmt.Errorf("lease: %s on table %q: no answer: %w: %s", call, table, sent, remedy)
	case errors.As(err, &decoded) && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &broken)):
		return fmt.Errorf("lease: %s on table %q: the connection was cut in the middle of the answer: %w: %s", call, table, decoded, remedy)
	case errors.As(err, &decoded):
		return fmt.Errorf("lease: %s on table %q: what answered is not DynamoDB: %w: %s", call, table, decoded, remedy)
	}
	return fmt.Errorf("lease: %s on table %q: %w", call, table, err)
}

// signedAtWrongTime reports whether a request was refused because of the time in
// its signature. The error code may be the same as for a wrong key.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/signature-v4-troubleshooting.html
func signedAtWrongTime(err smithy.APIError) bool {
	switch err.ErrorCode() {
	case "RequestExpired", "RequestTimeTooSkewed", "RequestInTheFuture":
		return true
	case "InvalidSignatureException", "SignatureDoesNotMatch":
		return strings.Contains(err.ErrorMessage(), "Signature expired") || strings.Contains(err.ErrorMessage(), "Signature not yet current")
	}
	return false
}

// denied reports whether the call is not permitted (as opposed to impossible).
func denied(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == "AccessDeniedException"
}

// Reason returns a word for logs and metrics that describes why a request failed.
func Reason(err error) string {
	var api smithy.APIError
	var neterr net.Error
	switch {
	case errors.Is(err, ErrNotDynamoDB):
		return "not_dynamodb"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &neterr) && neterr.Timeout():
		return "timeout"
	case errors.As(err, &api):
		if code := api.ErrorCode(); !isThrottle(code) {
			return code
		}
		return "throttled"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "connection"
}
