package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

const timeout = lease.DefaultTTL

// settled is after how long all members of a whole network see the same.
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

// names lists a state's node IDs, the oldest session first.
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

// network is between one node and its coordinator.
type network struct {
	cluster.Coordinator
	mu   sync.Mutex
	away bool
	side func(cluster.Member) bool // whom the node's side of a partition has
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

// recorder is a listener that remembers what it was told.
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

// table is an embedded DynamoDB without a network, so that the real SDK client,
// agents and coordinator run in virtual time; it counts calls.
type table struct {
	http.Handler
	name string

	mu    sync.Mutex
	away  map[string]bool // members of which no call arrives
	calls map[string]int  // by member and call

	writes int    // that a client of cutOff still makes
	late   func() // sends the first one that it did not make
}

// cutOff is the client of a member whose writes fail after some.
func (tab *table) cutOff(member string) lease.Client { return &cut{tab.client(member), tab} }

type cut struct {
	*dynamodb.Client
	tab *table
}

func (c *cut) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.tab.mu.Lock()
	c.tab.writes--
	left := c.tab.writes
	if left == -1 {
		c.tab.late = func() { _, _ = c.Client.UpdateItem(context.WithoutCancel(ctx), in, o...) }
	}
	c.tab.mu.Unlock()
	if left < 0 {
		return nil, errAway
	}
	return c.Client.UpdateItem(ctx, in, o...)
}

func newTable(t *testing.T, numbers int) *table {
	t.Helper()
	server, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tab := &table{Handler: server, away: map[string]bool{}, calls: map[string]int{}, writes: 1 << 30}
	tab.name = dynamotest.CreateTable(t, tab.client(""))
	if numbers > 0 {
		store := lease.NewDynamoDB(tab.client(""), tab.name)
		if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: numbers}); err != nil {
			t.Fatal(err)
		}
	}
	return tab
}

// client is one member's.
func (tab *table) client(member string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://table"), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: doer(func(r *http.Request) (*http.Response, error) {
			call := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
			tab.mu.Lock()
			away := tab.away[member]
			tab.calls[member+" "+call]++
			tab.mu.Unlock()
			if away {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			answer := httptest.NewRecorder()
			tab.ServeHTTP(answer, r)
			return answer.Result(), nil
		}),
		Retryer: aws.NopRetryer{},
	})
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func (tab *table) setAway(member string, away bool) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.away[member] = away
}

// count is how many calls there were since the last count.
func (tab *table) count(key string) int {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	defer delete(tab.calls, key)
	return tab.calls[key]
}

// leased starts an agent and a node that heartbeats with it.
func (tab *table) leased(t *testing.T, name string, change ...func(*cluster.Config)) (*lease.Agent, *cluster.Node) {
	t.Helper()
	client := tab.client(name)
	a, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(client, tab.name), Pool: "orders", Task: name, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	n := join(t, cluster.NewTable(client, tab.name), name, append([]func(*cluster.Config){func(c *cluster.Config) { c.Agent, c.Cluster = a, "" }}, change...)...)
	return a, n
}

// free frees a lease by force, as an operator does.
func (tab *table) free(t *testing.T, l lease.Lease) {
	t.Helper()
	res, err := lease.NewDynamoDB(tab.client(""), tab.name).Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Version: l.Version})
	if err != nil || !res.Applied {
		t.Fatal(res, err)
	}
}
