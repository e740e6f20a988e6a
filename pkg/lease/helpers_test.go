package lease_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// virtual runs a test in virtual time, with its goroutines accounted for.
// Virtual time begins in 2000; layouts begin later.
func virtual(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))) // virtual
		fn(t)
	})
}

// config is a Config on a store, silent, with the hook that the tests listen to.
func config(s lease.Store) lease.Config {
	return lease.Config{Store: s, Pool: "orders", Task: "test", Logger: slog.New(slog.DiscardHandler)}
}

// start starts an agent and closes it when the test ends.
func start(t *testing.T, cfg lease.Config) *lease.Agent {
	t.Helper()
	a, err := lease.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// events collects what happens.
type events struct {
	mu  sync.Mutex
	all []lease.Event
}

func (e *events) add(ev lease.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// of gives the events of some kinds, so far.
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

// network stands between agents and a store. meddle, if set, gets each write
// and what would do it, and answers in its place.
type network struct {
	*leasetest.Memory
	mu     sync.Mutex
	meddle func(ctx context.Context, w lease.Write, do func() (lease.Result, error)) (lease.Result, error)
	seen   []lease.Write
}

func newNetwork(size int) *network { return &network{Memory: leasetest.NewMemory("orders", size)} }

func (n *network) Write(ctx context.Context, w lease.Write) (lease.Result, error) {
	n.mu.Lock()
	n.seen = append(n.seen, w)
	meddle := n.meddle
	n.mu.Unlock()
	// A write that is under way is done even if its sender has gone.
	do := func() (lease.Result, error) { return n.Memory.Write(context.WithoutCancel(ctx), w) }
	if meddle == nil {
		return do()
	}
	return meddle(ctx, w, do)
}

// on sets what the network does from now on.
func (n *network) on(meddle func(ctx context.Context, w lease.Write, do func() (lease.Result, error)) (lease.Result, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.meddle = meddle
}

func writesOf[W lease.Write](n *network) (found []W) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.seen {
		if w, ok := w.(W); ok {
			found = append(found, w)
		}
	}
	return found
}

// lose does the write and loses the answer.
func lose(ctx context.Context, do func() (lease.Result, error)) (lease.Result, error) {
	if _, err := do(); err != nil {
		return lease.Result{}, err
	}
	return hang(ctx)
}

// hang never answers.
func hang(ctx context.Context) (lease.Result, error) {
	<-ctx.Done()
	return lease.Result{}, ctx.Err()
}

// item reads a number from the table.
func item(t *testing.T, s lease.Store, node int) lease.Lease {
	t.Helper()
	l, err := s.Get(context.WithoutCancel(t.Context()), "orders", node)
	if err != nil || l == nil {
		t.Fatal(l, err)
	}
	return *l
}

// ids makes a generator.
func ids(t *testing.T, a *lease.Agent) *snowflake.Generator {
	t.Helper()
	g, err := snowflake.New(a)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// wait lets virtual time pass, and everything that was due happen.
func wait(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}
