//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
)

func TestBoard(t *testing.T) {
	clustertest.Conformance(t, func(t *testing.T) clustertest.Backend {
		b := newBoard()
		return clustertest.Backend{Coordinator: b, Age: func(_ *testing.T, by time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, r := range b.records {
				r.beat = r.beat.Add(-by)
				r.member.Heartbeat = r.member.Heartbeat.Add(-by)
			}
		}}
	})
}
