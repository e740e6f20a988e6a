package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

// longestSilence is how long a command continues without an answered request.
const longestSilence = 10 * time.Second

// answers watches the requests of a command, and ends the command if too much time passes
// without an answer to any of them. The pool's verbs retry for as long as their context lives, and a
// single request to a host that accepts connections but never answers would otherwise
// never end.
type answers struct {
	mu       sync.Mutex
	end      context.CancelCauseFunc // ends the command; nil: nothing may end it
	limit    time.Duration           // longest silence
	endpoint string                  // where requests go, for people
	timeout  *time.Timer             // of --timeout
	alarm    *time.Timer             // goes off when the silence reaches limit
	since    time.Time               // start of the silence; zero: the last request was answered
	pending  int                     // requests without an answer so far
	failed   int                     // requests that failed since the last answer
	last     error                   // error of the latest failed request
	gaveUp   *silenceError
}

// silenceError explains why a command gave up.
type silenceError struct {
	endpoint string
	timeout  time.Duration // the --timeout that has passed; 0: the command gave up because of silence
	silence  time.Duration
	failed   int
	last     error
}

func (e *silenceError) Error() string {
	what := fmt.Sprintf("no answer from %s for %v", e.endpoint, e.silence)
	if e.timeout > 0 {
		what = fmt.Sprintf("not done within --timeout %v, asking %s", e.timeout, e.endpoint)
	}
	if e.failed > 0 && e.last != nil {
		what += fmt.Sprintf(" (%s failed, the last one with: %s)", count(e.failed, "request", "requests"), reason(e.last))
	}
	return what + ": check --endpoint (AWS_ENDPOINT_URL_DYNAMODB), AWS_REGION and the network"
}

// reason returns the code of DynamoDB's error, or else the innermost error.
func reason(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// begin limits how long the command may go without an answer, and, if timeout is not 0,
// how long it may take in all.
func (a *answers) begin(ctx context.Context, timeout time.Duration) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = end
	if a.limit == 0 {
		a.limit = longestSilence
	}
	if a.endpoint == "" {
		a.endpoint = "DynamoDB"
	}
	if timeout > 0 {
		a.timeout = time.AfterFunc(timeout, func() { a.giveUp(timeout) })
	}
	return ctx
}

// bound shortens the longest silence for a command that ends by itself after length. If
// length is 0, the command does not end by itself, and bound changes nothing.
func (a *answers) bound(length time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if length > 0 {
		a.limit = min(a.limit, max(length, shortestFirst))
	}
}

// overdue is called when the time of a command is over. It returns an error if the table
// has been silent for longer than patience. Otherwise it returns nil, because a read that
// was cut off when the command's time was over is not an outage.
func (a *answers) overdue() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if silence := time.Since(a.since); !a.since.IsZero() && silence > patience {
		return &silenceError{endpoint: a.endpoint, silence: silence.Round(time.Second), failed: a.failed, last: a.last}
	}
	return nil
}

// ready removes the command's time limits: from now on the command serves or watches for
// as long as it likes.
func (a *answers) ready() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = nil
	for _, t := range []*time.Timer{a.timeout, a.alarm} {
		if t != nil {
			t.Stop()
		}
	}
}

// giveUp ends the command, because its time is over or because the table has been silent
// for too long.
func (a *answers) giveUp(timeout time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Invariant (liveness): only a silence of full length ends a command. A timer that fired just
	// when an answer arrived may get here after the next silence has begun.
	if a.end == nil || timeout == 0 && (a.since.IsZero() || time.Since(a.since) < a.limit) {
		return // nothing may end the command, or an answer has just arrived
	}
	a.gaveUp = &silenceError{a.endpoint, timeout, a.limit, a.failed, a.last}
	a.end(a.gaveUp)
	a.end = nil
}

// explain returns the reason why the command gave up, if it did, instead of the error of
// the request that was canceled.
func (a *answers) explain(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var silence *silenceError
	if own := (*exitError)(nil); errors.As(err, &own) {
		return err
	}
	if errors.As(err, &silence) {
		return silence // without the errors that wrap it
	}
	if a.gaveUp == nil {
		return err
	}
	return a.gaveUp
}

// silent reports whether requests have failed since the last answer.
func (a *answers) silent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed > 0
}

func (a *answers) sent() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending++
	if a.since.IsZero() {
		a.wait()
	}
}

// wait begins a silence, and sets the alarm for the end of the longest silence allowed.
func (a *answers) wait() {
	a.since = time.Now()
	if a.end == nil {
		return
	}
	if a.alarm != nil {
		a.alarm.Stop()
	}
	a.alarm = time.AfterFunc(a.limit, func() { a.giveUp(0) })
}

func (a *answers) ended(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending--
	switch {
	case answered(err):
		a.since, a.failed, a.last = time.Time{}, 0, nil
		if a.alarm != nil {
			a.alarm.Stop()
		}
		if a.pending > 0 {
			a.wait()
		}
	case errors.Is(err, context.Canceled): // nobody waited for the answer
	default:
		a.failed++
		a.last = err
	}
}

// answered reports whether err is nil or an answer from DynamoDB. A retryable error does
// not count as an answer: it comes from a server that fails, throttles, or is not
// DynamoDB.
func answered(err error) bool {
	if err == nil {
		return true
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "ConditionalCheckFailedException", "ResourceNotFoundException", "ResourceInUseException", "ValidationException", "AccessDeniedException", "UnrecognizedClientException",
		"InvalidSignatureException", "ExpiredTokenException", "InvalidClientTokenId", "MissingAuthenticationTokenException", "IncompleteSignatureException":
		return true
	}
	return false
}

// on returns a client whose requests are watched.
func (a *answers) on(client *dynamodb.Client) *dynamodb.Client {
	o := client.Options()
	a.mu.Lock()
	a.endpoint = "DynamoDB in " + o.Region
	if o.BaseEndpoint != nil {
		a.endpoint = redacted(aws.ToString(o.BaseEndpoint))
	}
	a.mu.Unlock()
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("nodelease-answers",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				a.sent()
				out, metadata, err := next.HandleInitialize(ctx, in)
				a.ended(err)
				return out, metadata, err
			}), middleware.Before)
	})
	return dynamodb.New(o)
}
