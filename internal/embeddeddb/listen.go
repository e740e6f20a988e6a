package embeddeddb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

type listener struct {
	http   http.Server
	served chan error
}

// Listen serves on a loopback address such as 127.0.0.1:8000 or localhost:0 (a free port) until
// Close, and returns the endpoint for clients. Any other address is refused: there is no password.
func (s *Server) Listen(addr string) (endpoint string, err error) {
	if s.listener != nil {
		return "", errors.New("the embedded DynamoDB listens already")
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: %w: write it as 127.0.0.1:8000, or :0 for a free port after the host", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("address %q is not a loopback address, and the embedded DynamoDB has no access control: use 127.0.0.1 or localhost", addr)
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return "", fmt.Errorf("address %q is in use: stop the program that listens there, or choose another port (0 takes a free one)", addr)
	}
	if err != nil {
		return "", err
	}
	started := &listener{http: http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}, served: make(chan error, 1)}
	go func() { started.served <- started.http.Serve(l) }()
	s.listener = started
	return "http://" + l.Addr().String(), nil
}

// Close stops listening, lets calls in progress end for a moment, and closes the data file.
// It may be called again.
func (s *Server) Close() error {
	var err error
	if l := s.listener; l != nil {
		s.listener = nil
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if l.http.Shutdown(ctx) != nil {
			err = l.http.Close()
		}
		if served := <-l.served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal != nil {
		err = errors.Join(err, s.journal.close())
	}
	return err
}

// ListenAndServe runs a server with a data file (none if empty) until ctx ends, and tells ready its
// endpoint once it answers.
func ListenAndServe(ctx context.Context, addr, data string, ready func(endpoint string)) error {
	s, err := New(Options{Data: data})
	if err != nil {
		return err
	}
	endpoint, err := s.Listen(addr)
	if err != nil {
		return errors.Join(err, s.Close()) //nolint:contextcheck // closes whether ctx has ended or not
	}
	ready(endpoint)
	select {
	case <-ctx.Done():
	case failed := <-s.listener.served:
		s.listener.served <- failed // for Close to tell
	}
	return s.Close() //nolint:contextcheck // ctx has ended
}
