package conformance

import (
	"testing"

	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Virtual threads that wait for the sidecar do not block other virtual threads, even if a
// single platform thread runs all of them.
func TestVirtualThreads(t *testing.T) {
	for _, language := range languages(t) {
		if language != "java-virtual" {
			continue
		}
		for name, unix := range map[string]bool{"unix": true, "tcp": false} {
			t.Run(name, func(t *testing.T) {
				a, all := startAdapter(t, language), &seen{ids: map[snowflake.ID]string{}}
				s := newServer(t, leasetest.NewMemory("orders", 4), snowflake.Default(), unix)
				a.connect(t, s)
				s.set("freeze")
				if got, err := a.do(step{Op: "begin"}); err != nil || got.Error != "" || got.Count != 0 {
					t.Fatalf("got %+v, %v: while the sidecar is frozen no thread finished, want another thread to run", got, err)
				}
				s.set("ok")
				got, err := a.do(step{Op: "end"})
				if err == nil {
					err = all.add(s.layout, language, got.IDs, false)
				}
				if err != nil || len(got.IDs) != 64 {
					t.Fatalf("got %d IDs, error %q (%s), %v, want 64", len(got.IDs), got.Error, got.Detail, err)
				}
			})
		}
	}
}
