package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/discovery/discoverytest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// shop is a service of several instances, each of which answers with its name.
type shop struct {
	client  http.Client
	servers map[string]*httptest.Server
	agents  map[string]*lease.Agent
	*discovery.Directory
}

func open(t *testing.T, instances map[string]discovery.Address) *shop {
	t.Helper()
	leases := leasetest.NewMemory("shop", 8)
	directory, err := discovery.New(discovery.Config{Pool: "shop", Store: discoverytest.NewMemory(leases)})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{
		client:  http.Client{Transport: &transport{directory: directory, zone: "a", base: &http.Transport{DisableKeepAlives: true}}}, // an idle connection to a server that closed could lose a POST
		servers: map[string]*httptest.Server{}, agents: map[string]*lease.Agent{}, Directory: directory,
	}
	for name, here := range instances {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, name+string(body))
		}))
		t.Cleanup(server.Close)
		agent, err := lease.Start(t.Context(), lease.Config{Pool: "shop", Store: leases})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = agent.Close() })
		at, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		here.Host = at.Hostname()
		if here.Port, err = strconv.Atoi(at.Port()); err != nil {
			t.Fatal(err)
		}
		if err := directory.Register(t.Context(), agent, discovery.Service{Name: "stock", Address: here}); err != nil {
			t.Fatal(err)
		}
		s.servers[name], s.agents[name] = server, agent
	}
	return s
}

// answers counts the answers of each instance.
func (s *shop) answers(t *testing.T, requests int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range requests {
		resp, err := s.client.Post("http://stock/", "text/plain", strings.NewReader("!"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		name, whole := strings.CutSuffix(string(body), "!")
		if err != nil || !whole {
			t.Fatalf("%q, %v", body, err)
		}
		got[name]++
	}
	return got
}

func TestInTurnSameZoneFirst(t *testing.T) {
	s := open(t, map[string]discovery.Address{"one": {Zone: "a"}, "two": {Zone: "a", Weight: 2}, "far": {Zone: "b"}})
	if got, want := s.answers(t, 30), (map[string]int{"one": 10, "two": 20}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// No call fails while an instance is gone and its lease has not ended, even if it is that instance's turn.
	s.servers["two"].Close()
	if got, want := s.answers(t, 30), (map[string]int{"one": 30}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.servers["one"].Close()
	if got, want := s.answers(t, 30), (map[string]int{"far": 30}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.servers["far"].Close()
	if _, err := s.client.Get("http://stock/"); err == nil || strings.Count(err.Error(), "stock at 127.0.0.1") != 3 {
		t.Errorf("%v", err)
	}
}

func TestNobody(t *testing.T) {
	s := open(t, nil)
	for _, host := range []string{"stock", "a_b%23c"} {
		if _, err := s.client.Post("http://"+host+"/", "text/plain", strings.NewReader("!")); err == nil {
			t.Errorf("%s was answered", host)
		}
	}
}
