package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// table is a store that records which groups are read.
type table struct {
	*leasetest.Memory
	mu    sync.Mutex
	reads []int // groups, in order
	bad   map[int]string
	slow  time.Duration // how long the read of a group takes
}

func (t *table) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	if t.slow > 0 {
		if err := protocol.Pause(ctx, t.slow); err != nil {
			return protocol.Group{}, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads = append(t.reads, n)
	g, err := t.Memory.Group(ctx, pool, n)
	for id, why := range t.bad {
		if id/protocol.GroupSize == n {
			g.Corrupt = append(g.Corrupt, &lease.CorruptError{Pool: pool, NodeID: id, Err: errors.New(why)})
			for i, l := range g.Leases {
				if l.NodeID == id {
					g.Leases = append(g.Leases[:i:i], g.Leases[i+1:]...)
					break
				}
			}
		}
	}
	return g, err
}

// replace puts another pool in the place of this one.
func (t *table) replace(by *leasetest.Memory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Memory = by
}

// PoolItem reads the item of the pool that is there now.
func (t *table) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Memory.PoolItem(ctx, pool)
}

// read returns the groups that were read since its last call.
func (t *table) read() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	groups := t.reads
	t.reads = nil
	return groups
}

// claim claims a node ID for a task, with the given TTL.
func (t *table) claim(tb testing.TB, id int, task string, ttl time.Duration) string {
	tb.Helper()
	now := time.Now()
	session := uuid.Must(uuid.NewV7()).String()
	res, err := t.Write(tb.Context(), protocol.Claim{
		Key: protocol.Key{Pool: "orders", NodeID: id}, Session: session, Task: task,
		At: now, TTL: ttl, ExpiresAt: now.Add(ttl), ReservedUntil: now.Add(ttl), Metadata: map[string]string{"zone": "a"},
	})
	if err != nil || !res.Applied {
		tb.Fatalf("claim of %d: %+v, %v", id, res, err)
	}
	return session
}

// started returns a server that runs in the bubble of synctest.
func started(t *testing.T, size int) (*Server, *table) {
	t.Helper()
	return startedWith(t, size, Options{Every: time.Second})
}

func startedWith(t *testing.T, size int, o Options) (*Server, *table) {
	t.Helper()
	store := &table{Memory: leasetest.NewMemory("orders", size), bad: map[int]string{}}
	o.Source, o.Pool, o.Title = store, "orders", "leases"
	s := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	go s.run(ctx)
	t.Cleanup(func() { cancel(); <-s.gone })
	return s, store
}

// next reads the next message of a page, which must be of the given event.
func next[T any](t *testing.T, p *page, event string) (m T) {
	t.Helper()
	text, ok := <-p.out
	if !ok {
		t.Fatal("the page was disconnected")
	}
	name, body, _ := bytes.Cut(text, []byte("\ndata: "))
	if string(name) != "event: "+event {
		t.Fatalf("got %.200s, want %s", text, event)
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
