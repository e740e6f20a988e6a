package sim

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/history"
	"github.com/nodelease/nodelease/pkg/lease"
)

// process is one life of a program on a machine.
type process struct {
	*machine
	number int
	dead   chan struct{} // closed when it is killed
	once   sync.Once
	agent  *lease.Agent
	belief history.Event // as last witnessed; guarded by World.beliefs
}

// kill ends the process where it stands: it sends nothing more, hears nothing
// more, and makes no more IDs.
func (p *process) kill() { p.once.Do(func() { close(p.dead) }) }

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// stop waits while the machine is paused, and tells whether it was.
func (p *process) stop(at string) bool {
	resume := p.paused(at)
	if resume == nil {
		return false
	}
	p.World.count(func(c *Counts) { c.Pauses[at]++ })
	select {
	case <-resume:
	case <-p.dead:
	}
	return true
}

var errDead = errors.New("the process is dead")

// client is the SDK's, over connections in memory.
func (p *process) client() (*dynamodb.Client, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: 4, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if p.network.refuses(p.host) {
			return nil, errors.New("connection refused")
		}
		return p.pipes.dial(ctx)
	}}
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://" + p.host), Retryer: retry.NewStandard(),
		Credentials: credentials.NewStaticCredentialsProvider("A", "B", ""),
		HTTPClient:  &http.Client{Transport: &wire{p, transport}},
	}), transport.CloseIdleConnections
}

// wire is a process's way to the network.
type wire struct {
	p    *process
	next http.RoundTripper
}

// RoundTrip stops before the request is sent, when all that it says was read from
// the clocks before, and before the answer is heard.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.p.stop(sending) && r.Context().Err() != nil {
		// The time-out passed during the pause. Sent or given up: both happen.
		if w.p.intN(2) == 0 && !w.p.isDead() {
			late := r.Clone(context.WithoutCancel(r.Context()))
			w.p.background.Go(func() { w.sendLate(late) })
		}
		return nil, r.Context().Err()
	}
	if w.p.isDead() {
		return nil, errDead
	}
	res, err := w.next.RoundTrip(r)
	w.p.stop(hearing)
	if w.p.isDead() {
		if err == nil {
			_ = res.Body.Close()
		}
		return nil, errDead
	}
	return res, err
}

func (w *wire) sendLate(r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	w.p.World.count(func(c *Counts) { c.SentLate++ })
	if res, err := w.next.RoundTrip(r.WithContext(ctx)); err == nil {
		_ = res.Body.Close()
	}
}
