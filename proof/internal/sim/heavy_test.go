package sim

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.uber.org/goleak"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// many returns the number of node IDs of the default layout, or fewer with -short. The tests
// start that many agents.
func many() int {
	if testing.Short() {
		return 128
	}
	return 1024
}

// A process has as many agents as there are node IDs, each with a client of its own. For
// half an hour of virtual time neither goroutines nor memory grow, and no agent loses its
// node ID. No goroutine is left behind, since the bubble would wait for it.
func TestManyAgentsStayFlat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2040, 1, 2, 0, 0, 0, 0, time.UTC))) // virtual time
		db, err := embeddeddb.New(embeddeddb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		server := http.Server{Handler: db}
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		defer func() {
			_ = server.Close()
			<-served
		}()
		var hangUps []func()
		open := func() lease.Store {
			transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
			hangUps = append(hangUps, transport.CloseIdleConnections)
			return lease.NewDynamoDB(dynamodb.New(dynamodb.Options{
				Region: "us-east-1", BaseEndpoint: aws.String("http://db"), Credentials: credentials.NewStaticCredentialsProvider("A", "B", ""),
				HTTPClient: &http.Client{Transport: transport},
			}), tableName)
		}
		seeder := open()
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
		if err := createTable(t.Context(), transport); err != nil {
			t.Fatal(err)
		}
		if _, err := leasepool.Open(seeder, poolName).Seed(t.Context(), leasepool.Spec{Size: many()}); err != nil {
			t.Fatal(err)
		}
		var stores []lease.Store
		for range many() {
			stores = append(stores, open())
		}
		agents, ids := startMany(t, stores, lease.Config{TTL: 5 * time.Minute})
		use := func() {
			for i, a := range agents {
				if _, err := a.Lease(); err != nil {
					t.Fatal(err)
				}
				if _, err := ids[i].Next(); err != nil {
					t.Fatal(err)
				}
			}
		}
		measure := func() (goroutines int, heap uint64) {
			use()
			for _, hangUp := range hangUps { // open connections have buffers, and their number is random
				hangUp()
			}
			synctest.Wait()
			runtime.GC()
			runtime.GC() // the second collection empties sync.Pools, whose content is random too
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return runtime.NumGoroutine(), m.HeapAlloc
		}
		time.Sleep(5 * time.Minute) // virtual time, for the first renewals
		goroutines, heap := measure()
		time.Sleep(25 * time.Minute) // virtual time
		laterGoroutines, laterHeap := measure()
		t.Logf("%d agents: %d goroutines, %d KB; 25 minutes later %d goroutines, %d KB", len(agents), goroutines, heap>>10, laterGoroutines, laterHeap>>10)
		// An agent has one goroutine for its loop and, during a request, three for a
		// connection. If each of its 15 renewals left a goroutine or a kilobyte behind, the
		// totals would be far above these limits.
		if most := 6 * len(agents); goroutines > most || laterGoroutines > most {
			t.Errorf("%d goroutines, then %d, of %d agents", goroutines, laterGoroutines, len(agents))
		}
		if laterHeap > heap+heap/4 {
			t.Errorf("%d bytes, then %d", heap, laterHeap)
		}
		closeMany(t, agents)
		for _, hangUp := range hangUps {
			hangUp()
		}
	})
}

// The same number of agents start on a real socket, make IDs and close, and leave no
// goroutine behind. Time is real here and the machine may be slow, so only a few agents
// start at a time, and the agents do not renew. The test above covers renewals.
func TestManyAgentsLeaveNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("agents", func(t *testing.T) {
		client := dynamotest.Embedded(t)
		s := lease.NewDynamoDB(client, dynamotest.CreateTable(t, client))
		if _, err := leasepool.Open(s, poolName).Seed(t.Context(), leasepool.Spec{Size: many()}); err != nil {
			t.Fatal(err)
		}
		stores := make([]lease.Store, many())
		for i := range stores {
			stores[i] = s
		}
		agents, ids := startMany(t, stores, lease.Config{TTL: time.Hour})
		all := map[snowflake.ID]bool{}
		for _, g := range ids {
			for range 10 {
				id, err := g.NextContext(t.Context())
				if err != nil || all[id] {
					t.Fatal(id, all[id], err)
				}
				all[id] = true
			}
		}
		closeMany(t, agents)
	})
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// startMany starts agents, a few at a time.
func startMany(t *testing.T, stores []lease.Store, cfg lease.Config) ([]*lease.Agent, []*snowflake.Generator) {
	t.Helper()
	agents, ids := make([]*lease.Agent, len(stores)), make([]*snowflake.Generator, len(stores))
	var wg sync.WaitGroup
	turn := make(chan struct{}, 8)
	for i, s := range stores {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			c := cfg
			c.Store, c.Pool, c.Task, c.Logger, c.Wait = s, poolName, taskName(i), silent, 5*time.Minute
			a, err := lease.Start(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			agents[i] = a
			if ids[i], err = snowflake.New(a); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	held := map[int]bool{}
	for _, a := range agents {
		if held[a.NodeID()] {
			t.Fatalf("node %d is held twice", a.NodeID())
		}
		held[a.NodeID()] = true
	}
	return agents, ids
}

func closeMany(t *testing.T, agents []*lease.Agent) {
	var wg sync.WaitGroup
	turn := make(chan struct{}, 8)
	for _, a := range agents {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
