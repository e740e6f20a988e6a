package embeddeddb

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nodelease/nodelease/internal/local"
)

// Options are the options of a Server; the zero value keeps everything in memory.
type Options struct {
	// Data is the path of the file that keeps the tables. The file is created if it does not exist, and only one process at a
	// time can use it.
	Data string

	disk *disk // for tests
}

// Server is the database and its http.Handler. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex // held during each call, so that a call is one step
	tables   map[string]*table
	journal  *journal      // nil: memory only
	failed   error         // why nothing is served any more
	down     chan struct{} // closed when failed is set
	large    chan struct{} // limits the number of long requests that are being served
	listener *listener
}

// New returns a Server that has read its data file, if it has one. The caller must close it.
func New(o Options) (*Server, error) {
	s := &Server{tables: map[string]*table{}, down: make(chan struct{}), large: make(chan struct{}, largeRequests)}
	if o.Data != "" {
		if err := s.open(o.Data, cmp.Or(o.disk, &realDisk)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var operations = map[string]func(*Server, []byte) any{
	"CreateTable": operation((*Server).createTable), "DeleteTable": operation((*Server).deleteTable),
	"DescribeTable": operation((*Server).describeTable), "DescribeTimeToLive": operation((*Server).describeTimeToLive),
	"GetItem": operation((*Server).getItem), "PutItem": operation((*Server).putItem), "UpdateItem": operation((*Server).updateItem),
	"Query": operation((*Server).query), "Scan": operation((*Server).scan),
}

func operation[In any](do func(*Server, *In) any) func(*Server, []byte) any {
	return func(s *Server, body []byte) any {
		in := decode[In](body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mustServe()
		return do(s, in)
	}
}

// mustServe refuses every call once the journal's path leads to another file, since another server may be using that file.
func (s *Server) mustServe() {
	if s.failed == nil && s.journal != nil {
		if s.failed = s.journal.lost(); s.failed != nil {
			close(s.down)
		}
	}
	if s.failed != nil {
		refuseFor(s.failed)
	}
}

const (
	maxBody       = 4 << 20 // an item of 400 KB with every character escaped
	smallBody     = 64 << 10
	largeRequests = 8 // bodies above smallBody at a time, so that memory stays bounded
)

func (s *Server) serve(r *http.Request, do func(*Server, []byte) any) any {
	if n := r.ContentLength; n < 0 || n > smallBody {
		select {
		case s.large <- struct{}{}:
			defer func() { <-s.large }()
		default:
			panic(failure(http.StatusServiceUnavailable, coral+"ServiceUnavailable", "%d requests as large as this one are already being served: try again", largeRequests))
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		panic(serialization("the body ended early: %v", err))
	case len(body) > maxBody:
		panic(failure(http.StatusRequestEntityTooLarge, coral+"RequestEntityTooLargeException", "the embedded DynamoDB refuses requests above %d bytes", maxBody))
	}
	return do(s, body)
}

// ServeHTTP answers one call of the DynamoDB JSON 1.0 protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, status := any(nil), http.StatusOK
	refused := caught(func() {
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		if r.Method != http.MethodPost || r.URL.Path != "/" || kind != "application/x-amz-json-1.0" && kind != "application/json" {
			panic(failure(http.StatusNotFound, coral+"UnknownOperationException", "a call is a POST to / of the type application/x-amz-json-1.0"))
		}
		version, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		do := operations[name]
		if version != "DynamoDB_20120810" || do == nil {
			only := strings.Join(slices.Sorted(maps.Keys(operations)), ", ")
			panic(failure(http.StatusBadRequest, coral+"UnknownOperationException", "the embedded DynamoDB does not support the operation %.100q (%.100q), only %s", name, version, only))
		}
		out = s.serve(r, do)
	})
	if refused != nil {
		out, status = refused, refused.status
		_, _ = io.CopyN(io.Discard, r.Body, 4*maxBody) // a client that is still sending when its connection ends sees no answer
	}
	body, err := json.Marshal(out)
	if err != nil {
		panic(err) // the answers are this package's own types
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("X-Amzn-Requestid", rand.Text())
	h.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)) // the SDK checks it
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

type listener struct {
	http.Server
	served chan error
}

// httpServer returns a server that limits how long a client may take for each step. It keeps idle connections longer than the
// SDK does (90 s), so that it is the client that closes them.
func (s *Server) httpServer() http.Server {
	return http.Server{
		Handler: http.HandlerFunc(s.serveLocal), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
}

// serveLocal refuses requests from web pages in a browser, which use a host name that resolves to this machine (DNS
// rebinding) or come from another origin.
func (s *Server) serveLocal(w http.ResponseWriter, r *http.Request) {
	local.Harden(w.Header())
	if (local.Guard{}).Check(r) != nil {
		http.Error(w, "the embedded DynamoDB answers only programs on this machine, at 127.0.0.1 or localhost", http.StatusForbidden)
		return
	}
	s.ServeHTTP(w, r)
}

// Listen serves on a loopback address such as 127.0.0.1:8000 or localhost:0 (a free port) until Close, and returns the
// endpoint for clients. It refuses any other address, because there is no password.
func (s *Server) Listen(addr string) (endpoint string, err error) {
	host, _, err := net.SplitHostPort(addr)
	switch {
	case s.listener != nil:
		return "", errors.New("the embedded DynamoDB is already listening")
	case err != nil:
		return "", fmt.Errorf("address %q: %w: write it as 127.0.0.1:8000, or :0 for a free port after the host", addr, err)
	case !local.Loopback(host):
		return "", fmt.Errorf("address %q is not a loopback address, and the embedded DynamoDB has no access control: use 127.0.0.1 or localhost", addr)
	}
	l, err := local.Listen(addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return "", fmt.Errorf("address %q is in use: stop the program that listens there, or choose another port (0 chooses a free one)", addr)
	} else if err != nil {
		return "", err
	}
	s.listener = &listener{s.httpServer(), make(chan error, 1)}
	go func(started *listener) { started.served <- started.Serve(l) }(s.listener)
	return "http://" + l.Addr().String(), nil
}

// Close stops listening, waits up to a second for calls in progress, and closes the data file. It may be called again.
func (s *Server) Close() (err error) {
	if l := s.listener; l != nil {
		s.listener = nil
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if l.Shutdown(ctx) != nil {
			err = l.Server.Close()
		}
		if served := <-l.served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = cmp.Or(s.failed, errors.New("the embedded DynamoDB is closed"))
	if s.journal != nil {
		err = errors.Join(err, s.journal.file.Close())
		s.journal = nil
	}
	return err
}

// ListenAndServe runs a server with a data file (none if empty) until ctx ends, and reports its endpoint to ready.
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
	case <-s.down:
		err = s.failed
	case failed := <-s.listener.served:
		s.listener.served <- failed // for Close to report
	}
	return errors.Join(err, s.Close()) //nolint:contextcheck // ctx has ended
}
