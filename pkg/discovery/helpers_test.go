package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

var silent = slog.New(slog.DiscardHandler)

// world is a pool of node IDs and its registrations.
type world struct {
	leases *leasetest.Memory
	store  *counting
	cuts   map[*lease.Agent]*cut
}

func newWorld(size int) *world {
	m := leasetest.NewMemory("orders", size)
	return &world{m, &counting{Memory: entries.NewMemory(m)}, map[*lease.Agent]*cut{}}
}

// counting is a store in memory that counts calls and can lose answers.
type counting struct {
	*entries.Memory
	mu                    sync.Mutex
	queries, gets, writes int
	published             int
	refuse                func() bool
	lose                  func(partition string, r record) bool // whether the answer is lost although the write was applied
}

func (c *counting) note(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *counting) Query(ctx context.Context, partition string) ([]record, error) {
	c.note(&c.queries)
	return c.Memory.Query(ctx, partition)
}

func (c *counting) Get(ctx context.Context, partition string, nodeID int) (record, error) {
	c.note(&c.gets)
	return c.Memory.Get(ctx, partition, nodeID)
}

func (c *counting) Write(ctx context.Context, partition string, r record) (record, bool, error) {
	if r.NodeID == sharedNode {
		c.note(&c.published)
	} else {
		c.note(&c.writes)
	}
	c.mu.Lock()
	refused := c.refuse != nil && c.refuse()
	c.mu.Unlock()
	if refused {
		return record{}, false, errors.New("away")
	}
	now, applied, err := c.Memory.Write(ctx, partition, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lose != nil && c.lose(partition, r) {
		return record{}, false, context.DeadlineExceeded
	}
	return now, applied, err
}

func (c *counting) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// setOutage makes all calls fail, on leases and on entries.
func (w *world) setOutage(err error) {
	w.leases.SetOutage(err)
	w.store.SetOutage(err)
}

// cut is one agent's connection to the store. Once killed is set, no call of the agent
// reaches the store.
type cut struct {
	*leasetest.Memory
	killed atomic.Bool
}

func (c *cut) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if c.killed.Load() {
		return protocol.Result{}, errors.New("killed")
	}
	return c.Memory.Write(ctx, w)
}

func (w *world) cut() *cut { return &cut{Memory: w.leases} }

// agent starts an agent, which holds a node ID until the test ends.
func (w *world) agent(t *testing.T, change func(*lease.Config)) *lease.Agent {
	t.Helper()
	mine := w.cut()
	cfg := lease.Config{Store: mine, Pool: "orders", Task: "test", Logger: silent}
	if change != nil {
		change(&cfg)
	}
	a, err := lease.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	w.cuts[a] = mine
	return a
}

// kill ends a process as a crash does: the process sends nothing more.
func (w *world) kill(a *lease.Agent) { w.cuts[a].killed.Store(true) }

func (w *world) directory(t *testing.T, change func(*Config)) *Directory {
	t.Helper()
	cfg := Config{Store: w.store, Pool: "orders", Logger: silent}
	if change != nil {
		change(&cfg)
	}
	return directory(t, cfg)
}

func directory(t *testing.T, cfg Config) *Directory {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func service(t *testing.T, d *Directory, name string) *Lookup {
	t.Helper()
	l, err := d.Service(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// bounded returns a context for calls that would wait forever if something were wrong.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func register(t *testing.T, d *Directory, a *lease.Agent, offers ...Offer) {
	t.Helper()
	if err := d.Register(bounded(t), a, offers...); err != nil {
		t.Fatal(err)
	}
}

func at(port int) Address { return Address{Host: "10.0.0.7", Port: port} }

// ports returns the ports of the instances that a lookup finds.
func ports(t *testing.T, l *Lookup) []int {
	t.Helper()
	list, err := l.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return portsOf(list)
}

func portsOf(list []Instance) (all []int) {
	for _, i := range list {
		all = append(all, i.Port)
	}
	slices.Sort(all)
	return all
}

func wantPorts(t *testing.T, l *Lookup, want ...int) {
	t.Helper()
	if got := ports(t, l); !slices.Equal(got, want) {
		t.Errorf("at %s got %v, want %v", l.asked.at, got, want)
	}
}

// left returns all entries that are not cleared.
func (w *world) left() (all []string) {
	for partition, records := range w.store.Partitions() {
		for n, r := range records {
			if r.Holder != "" {
				all = append(all, fmt.Sprintf("%s %d", partition, n))
			}
		}
	}
	slices.Sort(all)
	return all
}

// lease returns a node ID's lease as it is in the table.
func (w *world) lease(t *testing.T, node int) lease.Lease {
	t.Helper()
	l, err := w.leases.Get(t.Context(), "orders", node)
	if err != nil || l == nil {
		t.Fatal(l, err)
	}
	return lease.Lease(*l)
}

// freeByForce frees a node ID, as an operator does, or as a reaper does after the lease
// has expired.
func (w *world) freeByForce(t *testing.T, node int) {
	t.Helper()
	res, err := w.leases.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: node}, Version: w.lease(t, node).Version})
	if err != nil || !res.Applied {
		t.Fatal(res, err)
	}
}

// after makes the first writes succeed, up to the number enough, and all later writes
// fail. With -1, all writes succeed.
func (c *counting) after(enough int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = func() bool { return enough >= 0 && c.writes > enough }
}
