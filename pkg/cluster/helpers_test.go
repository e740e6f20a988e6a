package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

const timeout = lease.DefaultTTL

// settled is the time after which all members see the same state if there is no partition.
const settled = timeout + 2*timeout/3

var silent = slog.New(slog.DiscardHandler)

// join starts a node and closes it when the test ends.
func join(t *testing.T, c cluster.Coordinator, name string, change ...func(*cluster.Config)) *cluster.Node {
	t.Helper()
	cfg := cluster.Config{Cluster: "orders", Name: name, Coordinator: c, Logger: silent}
	for _, f := range change {
		f(&cfg)
	}
	n, err := cluster.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// names lists the names of a state's members, the oldest session first.
func names(s cluster.State) string {
	var all []string
	for m := range s.Members() {
		all = append(all, m.Name)
	}
	return strings.Join(all, " ")
}

func leader(n *cluster.Node) string {
	m, _ := n.Leader()
	return m.Name
}

// network is the connection between one node and its coordinator.
type network struct {
	cluster.Coordinator
	mu   sync.Mutex
	away bool
	side func(cluster.Member) bool // whether a member is on the node's side of a partition
	seen int
}

var errAway = errors.New("away")

func (n *network) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	n.mu.Lock()
	away, side := n.away, n.side
	n.seen++
	n.mu.Unlock()
	if away {
		return cluster.Snapshot{}, errAway
	}
	snap, err := n.Coordinator.Heartbeat(ctx, b)
	if side == nil {
		return snap, err
	}
	var mine []cluster.Member
	for _, m := range snap.Members {
		if side(m) {
			mine = append(mine, m)
		}
	}
	snap.Members = mine
	return snap, err
}

func (n *network) set(away bool, side func(cluster.Member) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away, n.side = away, side
}

// recorder is a listener that records its events.
type recorder struct {
	mu  sync.Mutex
	all []cluster.Event
}

func (r *recorder) listen(_ context.Context, e cluster.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
	return nil
}

func (r *recorder) events() []cluster.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]cluster.Event(nil), r.all...)
}

// table is the table of the leases in virtual time, for members with leases.
type table struct{ *fixture.Table }

func newTable(t *testing.T, size int) table {
	t.Helper()
	return table{fixture.NewTable(t, size)}
}

// leased starts an agent, and a node that heartbeats with the agent's renewals.
func (tab table) leased(t *testing.T, name string, change ...func(*cluster.Config)) (*lease.Agent, *cluster.Node) {
	t.Helper()
	client := tab.Client(name)
	a, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(client, tab.Name), Pool: "orders", Task: name, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	n := join(t, dynamocoordinator.New(client, tab.Name), name, append([]func(*cluster.Config){func(c *cluster.Config) { c.Agent, c.Cluster = a, "" }}, change...)...)
	return a, n
}

// free frees a lease by force, as an operator does.
func (tab table) free(t *testing.T, l lease.Lease) {
	t.Helper()
	res, err := lease.NewDynamoDB(tab.Client(""), tab.Name).Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Version: l.Version})
	if err != nil || !res.Applied {
		t.Fatal(res, err)
	}
}
