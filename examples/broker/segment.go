package main

import (
	"fmt"
	"sync"
)

// segments stand for the resource: a database with WHERE version <= ?, object storage with a condition, another service.
type segments struct {
	mu      sync.Mutex
	highest map[int]int64
	entries map[int][]string
}

func newSegments() *segments {
	return &segments{highest: map[int]int64{}, entries: map[int][]string{}}
}

// append compares the token and writes in one step. That the two are one step is what makes fencing work.
func (s *segments) append(nodeID int, version int64, entry string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.highest[nodeID] {
		return fmt.Errorf("segment %d has seen version %d", nodeID, s.highest[nodeID])
	}
	s.highest[nodeID] = version
	s.entries[nodeID] = append(s.entries[nodeID], entry)
	return nil
}
