package protocol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// ErrNotDynamoDB is returned for an answer that DynamoDB would never send, such as an
// empty 200 from a load balancer, a page from a captive portal, or damaged bytes. As
// after a time-out, the outcome of the request is then unknown.
var ErrNotDynamoDB = errors.New("what answered is not DynamoDB")

// answerError is the reason why an answer is not accepted.
type answerError struct {
	text  string
	cause error
}

func (e *answerError) Error() string { return e.text }

func (e *answerError) Unwrap() error { return e.cause }

// notDynamoDB wraps ErrNotDynamoDB with the defect of the answer.
func notDynamoDB(format string, args ...any) error {
	return &answerError{ErrNotDynamoDB.Error() + ": " + fmt.Sprintf(format, args...), ErrNotDynamoDB}
}

// Genuine makes a client accept only answers that DynamoDB could have sent. The SDK
// itself reads `{}` as "there is no such item" and only logs a wrong checksum.
//
// DynamoDB adds a request ID to every answer, and the CRC-32 of the body to each
// successful one. DynamoDB Local, LocalStack and the embedded server do the same. So an
// empty answer to GetItem means that the item is missing only if the answer has both a
// request ID and a checksum.
func Genuine(o *dynamodb.Options) {
	o.EnableAcceptEncodingGzip = false // the checksum covers the body as sent
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		if _, there := s.Deserialize.Get(genuine{}.ID()); there {
			return nil
		}
		return s.Deserialize.Add(genuine{}, middleware.After) // runs first on the answer
	})
}

type genuine struct{}

func (genuine) ID() string { return "Nodelease:Genuine" }

func (genuine) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	resp, ok := out.RawResponse.(*smithyhttp.Response)
	if err != nil || !ok {
		return out, metadata, err // there is no answer to check
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		resp.Body = envelope{io.LimitReader(resp.Body, maxEnvelope), resp.Body} // bounded, because the SDK reads the whole body
		return out, metadata, nil
	}
	sum := crc32.NewIEEE()
	body, err := trim(io.TeeReader(resp.Body, sum))
	_ = resp.Body.Close() // everything needed was read
	if err != nil && !errors.Is(err, ErrNotDynamoDB) {
		err = &answerError{"the answer was cut off: " + err.Error(), err}
	}
	if err != nil {
		return out, metadata, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return out, metadata, checkAnswer(resp.StatusCode, resp.Header, body, sum.Sum32())
}

// envelope is a body of bounded length.
type envelope struct {
	io.Reader
	io.Closer
}

// checkAnswer returns an error for an answer that DynamoDB would not send. An error
// answer is accepted even without a request ID and a checksum: it may come from an
// intermediary, and nothing is concluded from it about an item. The answer to a refused
// condition is checked, because it may mean that a lease is lost.
func checkAnswer(status int, h http.Header, body []byte, crc uint32) error {
	means := status < http.StatusMultipleChoices || bytes.Contains(body, []byte("ConditionalCheckFailed"))
	sum, want := h.Get("X-Amz-Crc32"), strconv.FormatUint(uint64(crc), 10)
	switch {
	case h.Get("X-Amzn-Requestid") == "" && means:
		return notDynamoDB("status %d names no request", status)
	case sum == "" && status < http.StatusMultipleChoices:
		return notDynamoDB("status %d has no checksum", status)
	case sum != "" && sum != want:
		return notDynamoDB("status %d has checksum %s, and its body %s", status, sum, want)
	}
	return nil
}

// once limits a call to one attempt, and accepts only a genuine answer.
func once(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	Genuine(o)
}

// hasKey reports whether an item is the one with this key, and not one from the answer to
// another request.
func hasKey(av, key attributes) bool {
	group, _ := av[partitionKey].(*types.AttributeValueMemberS)
	want, _ := key[partitionKey].(*types.AttributeValueMemberS)
	return group != nil && group.Value == want.Value && numberOf(av[sortKey]) == numberOf(key[sortKey])
}

// kept reports whether the item in the answer to a claim or a renewal has the requested
// values. An answer with different values must not be relied on.
func kept(w Write, l *Lease) bool {
	switch w := w.(type) {
	case Claim:
		return l.Holder == w.Session && l.Renewal == 0 && l.ExpiresAt.Equal(Trunc(w.ExpiresAt)) && l.ReservedUntil.Equal(Trunc(w.ReservedUntil))
	case Renew:
		return l.Holder == w.Session && l.Version == w.Version && l.Renewal == w.Renewal &&
			l.ExpiresAt.Equal(Trunc(w.ExpiresAt)) && l.ReservedUntil.Equal(Trunc(w.ReservedUntil))
	}
	return true
}
