package sim

import (
	"errors"
	"net/http"
	"sync"
)

// line is the set of connections from a client on a machine to the network. They are in
// memory: requests and answers are passed as values and never encoded as bytes.
type line struct {
	*machine
	mu   sync.Mutex
	idle int // connections that are open and unused
}

// mostIdle is how many connections are kept open.
const mostIdle = 4

func (m *machine) line() *line { return &line{machine: m} }

// RoundTrip implements [http.RoundTripper]. As in package http, a request opens a new
// connection if there is no unused one, and closes its connection if it is canceled.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !l.connect() {
		return nil, errors.New("connection refused")
	}
	c, err := newCall(r)
	if err != nil {
		return nil, err
	}
	answered := make(chan *answer, 1)
	l.network.calls.Add(1)
	go func() { answered <- l.network.carry(ctx, c) }()
	select {
	case a := <-answered:
		if a != nil {
			l.rest()
			return a.response(r, l.Plan.Dates), nil
		}
		return nil, ctx.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect takes an unused connection or opens a new one, and reports whether it
// succeeded.
func (l *line) connect() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle > 0 {
		l.idle--
		return true
	}
	return !l.network.refuses(l.host)
}

// rest puts back a connection that can be used again.
func (l *line) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = min(l.idle+1, mostIdle)
}
