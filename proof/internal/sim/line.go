package sim

import (
	"errors"
	"net/http"
	"sync"
)

// line is the connections that a client on a machine has to the network. They are in
// memory: the network has each request as the client has made it, and the client each
// answer, without the bytes between.
type line struct {
	*machine
	mu   sync.Mutex
	idle int // connections that are open, and at rest
}

// mostIdle is how many connections are kept open.
const mostIdle = 4

func (m *machine) line() *line { return &line{machine: m} }

// RoundTrip implements [http.RoundTripper]. Like that of package http it needs a new
// connection if none is at rest, and a request that is given up closes its own.
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

// connect takes a connection, and reports whether it has one.
func (l *line) connect() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle > 0 {
		l.idle--
		return true
	}
	return !l.network.refuses(l.host)
}

// rest lets a connection rest.
func (l *line) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = min(l.idle+1, mostIdle)
}
