package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// segments is the store of segments, as a broker reaches it.
type segments struct{ url string }

// append sends an entry with the fencing token.
func (s segments) append(ctx context.Context, nodeID int, version int64, entry string) error {
	url := fmt.Sprintf("%s/segments/%d?version=%d", s.url, nodeID, version)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(entry))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // if the body cannot be read, the status says enough
		return fmt.Errorf("segment %d: %s: %s", nodeID, res.Status, strings.TrimSpace(string(why)))
	}
	return nil
}

// store is a store of segments. It represents a database with WHERE version <= ?, object storage with a condition, or another service.
type store struct {
	mu      sync.Mutex
	highest map[int]int64
	entries map[int][]string
}

func newStore() *store { return &store{highest: map[int]int64{}, entries: map[int][]string{}} }

// append compares the token and writes in one step. Fencing would not work if these were two steps.
func (s *store) append(nodeID int, version int64, entry string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.highest[nodeID] {
		return fmt.Errorf("segment %d has seen version %d", nodeID, s.highest[nodeID])
	}
	s.highest[nodeID] = version
	s.entries[nodeID] = append(s.entries[nodeID], entry)
	return nil
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var nodeID int
	var version int64
	if _, err := fmt.Sscanf(r.URL.Path+" "+r.URL.Query().Get("version"), "/segments/%d %d", &nodeID, &version); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	entry, err := io.ReadAll(io.LimitReader(r.Body, 1000))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.append(nodeID, version, string(entry)); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
