package conformance

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/app/sidecar"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// server is a sidecar that can be made to fail.
type server struct {
	t       *testing.T
	store   *leasetest.Memory
	layout  snowflake.Layout
	address string // in the form of NODELEASE_SIDECAR

	mu     sync.Mutex
	mode   string
	thaw   chan struct{} // closed when the server stops being frozen
	kept   []byte        // the first answer with a block
	agent  *lease.Agent
	next   http.Handler
	http   *http.Server
	ended  chan struct{}
	listen func() (net.Listener, error)
}

// newServer returns a server that serves on a Unix socket, or on the loopback interface.
func newServer(t *testing.T, store *leasetest.Memory, layout snowflake.Layout, unix bool) *server {
	t.Helper()
	s := &server{t: t, store: store, layout: layout, mode: "ok", thaw: make(chan struct{})}
	address := "127.0.0.1:0"
	if unix {
		address = "unix:" + filepath.Join(t.TempDir(), "s")
		s.address = address
	}
	s.listen = func() (net.Listener, error) { return sidecar.Listen(address, false, 0o600) }
	s.up()
	if !unix {
		s.address = "http://" + s.http.Addr
		address = s.http.Addr
	}
	t.Cleanup(s.down)
	return s
}

// up leases a node ID and listens.
func (s *server) up() {
	s.t.Helper()
	metrics, err := sidecar.NewMetrics()
	if err != nil {
		s.t.Fatal(err)
	}
	agent, err := lease.Start(s.t.Context(), lease.Config{Store: s.store, Pool: "orders", Logger: slog.New(slog.DiscardHandler), OnEvent: metrics.Event})
	if err != nil {
		s.t.Fatal(err)
	}
	ids, err := snowflake.New(agent, snowflake.WithLayout(s.layout))
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := s.listen()
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.agent, s.next = agent, sidecar.Handler(agent, ids, metrics)
	s.http = &http.Server{Handler: s, Addr: l.Addr().String()}
	s.ended = make(chan struct{})
	server, ended := s.http, s.ended
	s.mu.Unlock()
	go func() { defer close(ended); _ = server.Serve(l) }()
}

// down ends the server, in a way that looks like a crash to its clients, and releases the
// node ID.
func (s *server) down() {
	s.set("ok")
	s.mu.Lock()
	server, ended, agent := s.http, s.ended, s.agent
	s.http = nil
	s.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close()
	<-ended
	_ = agent.Close()
}

// set changes how the server behaves.
func (s *server) set(mode string) {
	switch mode {
	case "up":
		s.up()
		return
	case "down":
		s.down()
		return
	case "restart":
		s.down()
		s.up()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == "freeze" {
		close(s.thaw)
		s.thaw = make(chan struct{})
	}
	s.mode = mode
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	mode, next, thaw, kept := s.mode, s.next, s.thaw, s.kept
	if mode == "cut once" {
		s.mode = "ok"
	}
	s.mu.Unlock()
	problem := func(status int, word string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"error":"` + word + `","detail":"so it is","remedy":"none: a test wants it"}`))
	}
	switch mode {
	case "ok":
	case "freeze":
		<-thaw
		panic(http.ErrAbortHandler)
	case "cut", "cut once":
		panic(http.ErrAbortHandler)
	case "stale":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(kept)
		return
	case "garbage":
		_, _ = w.Write([]byte(`<html>{"nonce":1}`))
		return
	case "bad gateway": // a proxy
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html>Bad Gateway</html>"))
		return
	case "slow": // takes longer than a timer whose length has overflowed
		time.Sleep(30 * time.Millisecond)
	case "few":
		q := r.URL.Query()
		q.Set("n", "100")
		r.URL.RawQuery = q.Encode()
	case "lost":
		problem(http.StatusGone, mode)
		return
	case "suspended", "busy", "clock_behind":
		problem(http.StatusServiceUnavailable, mode)
		return
	}
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	switch mode {
	case "another pool":
		body = bytes.Replace(body, []byte(`"orders"`), []byte(`"others"`), 1)
	case "another layout":
		body = bytes.Replace(body, []byte(`"epoch_ms":1735689600000`), []byte(`"epoch_ms":1735689600001`), 1)
	}
	s.mu.Lock()
	if s.kept == nil && strings.HasPrefix(r.URL.Path, "/v1/blocks") {
		s.kept = body
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}
