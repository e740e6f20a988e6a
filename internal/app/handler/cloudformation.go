package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/nodelease/nodelease/internal/protocol"
)

// answer is the response that CloudFormation received.
type answer struct {
	cfn.Response
	err error // the failure that the response reports
}

// mostAnswers bounds the answers that a process remembers.
const mostAnswers = 1000

// answerFor executes an event, reports the result to CloudFormation, and returns the
// failure, so that the function's own alarm fires too. Lambda may deliver an answered event
// again at any time, perhaps after a newer event. The process that has answered the event
// sends the same answer again and changes nothing. Any other process executes the old
// event, and sets the pool to that event's size again. Poolmetric reports that, and no ID
// is made twice because of it.
func (b *Bootstrap) answerFor(ctx context.Context, e cfn.Event) error {
	if err := checkResponseURL(e.ResponseURL); err != nil {
		logger(ctx).Error("refused", "error", err.Error())
		return err
	}
	b.mu.Lock()
	a, again := b.answered[e.RequestID]
	b.mu.Unlock()
	if !again || e.RequestID == "" {
		a = b.judged(ctx, e)
	}
	r := cfn.NewResponse(&e)
	r.Status, r.Reason, r.PhysicalResourceID, r.Data = a.Status, a.Reason, a.PhysicalResourceID, a.Data
	if err := send(ctx, e.ResponseURL, r); err != nil {
		return errors.Join(a.err, fmt.Errorf("the response %s did not reach CloudFormation: %w", r.Status, err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answered == nil || len(b.answered) >= mostAnswers {
		b.answered = map[string]answer{}
	}
	b.answered[e.RequestID] = a
	return a.err
}

// judged executes a new event and returns the answer to it.
func (b *Bootstrap) judged(ctx context.Context, e cfn.Event) (a answer) {
	a.PhysicalResourceID, a.Data, a.err = b.resource(ctx, e)
	if a.PhysicalResourceID == "" { // CloudFormation requires an ID, even if the event has none
		a.PhysicalResourceID = e.RequestID
	}
	a.Status = cfn.StatusSuccess
	if a.err != nil {
		a.Status, a.Data = cfn.StatusFailed, nil
		a.Reason = shorten(a.err)
		logger(ctx).Error("CloudFormation is told that it failed", "request", e.RequestID, "type", string(e.RequestType), "id", a.PhysicalResourceID, "error", a.Reason)
	}
	return a
}

// shorten returns the text of an error, cut to fit into CloudFormation's 4 KB.
func shorten(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), 1000)], "")
}

const (
	// attempts is the minimum number of attempts to send a response that does not arrive.
	attempts = 5
	// attemptLimit is the longest time for one attempt.
	attemptLimit = 5 * time.Second
	// lastAttempt is how long before the end of the function's time no more attempts are made.
	lastAttempt = time.Second
)

// refusedError is an answer to a response that another attempt would get too, for example because
// its URL has expired.
type refusedError struct{ status int }

func (e refusedError) Error() string { return fmt.Sprintf("it answered with status %d", e.status) }

// send sends the response until it arrives, or is refused, or the function's time is up.
func send(ctx context.Context, to string, r *cfn.Response) (err error) {
	end, timed := ctx.Deadline()
	for n := 0; ; n++ {
		// Invariant: no attempt takes the time of those that follow, even if it hangs.
		limit := attemptLimit
		if timed {
			limit = min(limit, time.Until(end)/attempts)
		}
		if err = sendOnce(ctx, limit, to, r); err == nil {
			return nil
		}
		logger(ctx).Warn("CloudFormation was not reached", "error", err.Error())
		// Invariant: a response is sent for as long as there is time. Without it, the deployment waits for
		// its own time-out, and is then rolled back.
		if n+1 >= attempts && (!timed || time.Until(end) < lastAttempt || errors.As(err, new(refusedError))) || protocol.Pause(ctx, protocol.Backoff(n)) != nil {
			return err
		}
	}
}

// sendOnce does what cfn.Response.Send does, which has no time limit.
func sendOnce(ctx context.Context, limit time.Duration, to string, r *cfn.Response) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to, bytes.NewReader(body)) // without a Content-Type, which the URL's signature excludes
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusOK:
		return nil
	case res.StatusCode >= 400 && res.StatusCode < 500:
		return refusedError{res.StatusCode}
	}
	return fmt.Errorf("it answered with status %d", res.StatusCode)
}

// responseHost matches the hosts to which CloudFormation wants answers sent: its own bucket
// in the stack's Region.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-customresource-rules.html
var responseHost = regexp.MustCompile(`^cloudformation-custom-resource-response-[a-z0-9-]+\.s3([.-][a-z0-9-]+)*\.(amazonaws\.com|amazonaws\.com\.cn|amazonaws\.eu|c2s\.ic\.gov|sc2s\.sgov\.gov)$`)

// checkResponseURL returns an error if the address is not one of CloudFormation's, so that
// the table's details and errors are sent nowhere else. With an emulator, which sets
// AWS_ENDPOINT_URL, answers may also go to this machine.
func checkResponseURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("ResponseURL %.200q is not a URL", text)
	case u.Scheme == "https" && u.User == nil && (u.Port() == "" || u.Port() == "443") && responseHost.MatchString(u.Hostname()):
		return nil
	case os.Getenv("AWS_ENDPOINT_URL") != "" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()):
		return nil
	}
	return fmt.Errorf("ResponseURL is on %.200q, which is not CloudFormation's: the event was not handled, and nothing was sent there", u.Host)
}
