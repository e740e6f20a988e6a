package main

import (
	"context"
	"fmt"
	"sync"
)

// phase is the purpose of a request. It is passed in the context, through the contender and
// the SDK down to the transport.
type phase string

const (
	claiming  phase = "claim"
	renewing  phase = "renew"
	releasing phase = "release"
)

type phaseKey struct{}

func in(ctx context.Context, p phase) context.Context { return context.WithValue(ctx, phaseKey{}, p) }

// phaseOf returns the phase of a request. A request without a phase belongs to the claim: it
// is one of the reads of the table and the pool at a start.
func phaseOf(ctx context.Context) phase {
	if p, ok := ctx.Value(phaseKey{}).(phase); ok {
		return p
	}
	return claiming
}

// tally counts the requests of one phase.
type tally struct {
	requests, writes, refused int // all requests; conditional writes; refused conditional writes
	queries                   int // requests that read many items
	writeUnits, readUnits     float64
}

// meter counts requests by their phase.
type meter struct {
	mu     sync.Mutex
	phases map[phase]*tally
}

func newMeter() *meter { return &meter{phases: map[phase]*tally{}} }

func (m *meter) add(ctx context.Context, count func(t *tally)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := phaseOf(ctx)
	if m.phases[p] == nil {
		m.phases[p] = &tally{}
	}
	count(m.phases[p])
}

func (m *meter) of(p phase) tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.phases[p]; t != nil {
		return *t
	}
	return tally{}
}

// operation counts a request to DynamoDB.
func (m *meter) operation(ctx context.Context, name string, refused bool) {
	m.add(ctx, func(t *tally) {
		t.requests++
		switch name {
		case "UpdateItem", "PutItem", "DeleteItem":
			t.writes++
			if refused {
				t.refused++
			}
		case "Query", "Scan":
			t.queries++
		case "GetItem", "DescribeTable":
		default:
			panic(fmt.Sprintf("a request %q that nobody counts", name))
		}
	})
}
