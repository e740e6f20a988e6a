package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/nodelease/nodelease/internal/local"
)

// Listen opens a port of the loopback interface, such as 127.0.0.1:8080 or
// localhost:0 (a free port). It refuses any other address, because the page has no password.
func Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w: write it as 127.0.0.1:8080, or with port 0 for a free one", addr, err)
	}
	if !local.Loopback(host) {
		return nil, fmt.Errorf("address %q is not on the loopback interface, and the page has no access control: use 127.0.0.1, and a tunnel (ssh -L) from elsewhere", addr)
	}
	l, err := local.Listen(addr)
	if errors.Is(err, local.ErrElsewhere) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("address %q: %w: choose another port (0 chooses a free one)", addr, err)
	}
	return l, nil
}

// Serve reads the pool, and serves the page on a port that Listen has opened, until ctx
// ends. It may be called only once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go s.run(reading)
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		// When run has returned, open pages are told that the server ends.
		<-s.gone
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close()
		}
		err = <-served
	}
	stop()
	<-s.gone
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
