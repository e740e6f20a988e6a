package lease_test

import (
	"context"
	"sync"
	"testing"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// events collects the events of an agent.
type events struct {
	mu  sync.Mutex
	all []lease.Event
}

func (e *events) add(ev lease.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// of returns the events of the given kinds so far.
func (e *events) of(kinds ...lease.EventKind) (found []lease.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		for _, k := range kinds {
			if ev.Kind == k {
				found = append(found, ev)
			}
		}
	}
	return found
}

func (e *events) kinds(kinds ...lease.EventKind) (names []lease.EventKind) {
	for _, ev := range e.of(kinds...) {
		names = append(names, ev.Kind)
	}
	return names
}

// item reads the item of a node ID from the table.
func item(t *testing.T, s lease.Store, node int) protocol.Lease {
	t.Helper()
	l, err := s.Get(context.WithoutCancel(t.Context()), "orders", node)
	if err != nil || l == nil {
		t.Fatal(l, err)
	}
	return *l
}

// ids returns a generator on an agent.
func ids(t *testing.T, a *lease.Agent) *snowflake.Generator {
	t.Helper()
	g, err := snowflake.New(a)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
