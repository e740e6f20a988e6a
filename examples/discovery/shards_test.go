package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/discovery/discoverytest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// A shard is registered and deregistered while the process runs. A shard with a bad key is refused.
func TestShards(t *testing.T) {
	leases := leasetest.NewMemory("shop", 4)
	agent, err := lease.Start(t.Context(), lease.Config{Pool: "shop", Store: leases, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	directory, err := discovery.New(discovery.Config{Pool: "shop", Store: discoverytest.NewMemory(leases)})
	if err != nil {
		t.Fatal(err)
	}
	h := shards(directory, agent, "stock", discovery.Address{Host: "127.0.0.1", Port: 4711})
	for _, step := range []struct {
		method, key string
		code        int
		body        string
	}{
		{"GET", "7", http.StatusOK, ""},
		{"PUT", "7", http.StatusNoContent, ""},
		{"GET", "7", http.StatusOK, fmt.Sprintf("%d 127.0.0.1:4711\n", agent.NodeID())},
		{"GET", "8", http.StatusOK, ""},
		{"DELETE", "7", http.StatusNoContent, ""},
		{"GET", "7", http.StatusOK, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(step.method, "/shards/"+step.key, nil))
		if w.Code != step.code || w.Body.String() != step.body {
			t.Errorf("%+v: %d %q", step, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("PUT", "/shards/_", nil)); w.Code != http.StatusBadRequest {
		t.Error(w.Code, w.Body)
	}
}

// lines ends a watch after its first line.
type lines struct {
	end  context.CancelFunc
	text string
}

func (l *lines) Write(b []byte) (int, error) {
	l.text += string(b)
	l.end()
	return len(b), nil
}

// The catalogue shows a service once it is registered.
func TestCatalogue(t *testing.T) {
	leases := leasetest.NewMemory("shop", 4)
	agent, err := lease.Start(t.Context(), lease.Config{Pool: "shop", Store: leases, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	directory, err := discovery.New(discovery.Config{Pool: "shop", Store: discoverytest.NewMemory(leases)})
	if err != nil {
		t.Fatal(err)
	}
	if err := directory.Register(t.Context(), agent, discovery.Service{Name: "stock", Address: discovery.Address{Host: "127.0.0.1", Port: 4711}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := lines{end: cancel}
	catalogue(ctx, directory.Services(), &out)
	if want := "services: stock\n"; out.text != want {
		t.Errorf("got %q, want %q", out.text, want)
	}
}
