package lease_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// A lease is a small thing to hold: many fit into one process.
const (
	mostGoroutines = 2
	mostBytes      = 64 << 10
)

func TestAgentIsLight(t *testing.T) {
	const agents = 1000
	goroutines, bytes := weigh(t, leasetest.NewMemory("orders", agents), agents)
	t.Logf("an agent has %.2f goroutines and %.0f bytes", goroutines, bytes)
	if goroutines > mostGoroutines || bytes > mostBytes {
		t.Errorf("an agent has %.2f goroutines and %.0f bytes, at most %d and %d were promised", goroutines, bytes, mostGoroutines, mostBytes)
	}
}

// BenchmarkAgents weighs 10,000 agents in one process, on a store in memory and on
// one client of the AWS SDK, whose connections and whose server are in the figures
// too.
//
//	go test -run '^$' -bench Agents -benchtime 1x ./pkg/lease
func BenchmarkAgents(b *testing.B) {
	const agents = 10_000
	run := func(b *testing.B, s lease.Store) {
		for range b.N {
			goroutines, bytes := weigh(b, s, agents)
			b.ReportMetric(goroutines, "goroutines/lease")
			b.ReportMetric(bytes, "bytes/lease")
		}
	}
	b.Run("memory", func(b *testing.B) { run(b, leasetest.NewMemory("orders", 2*agents)) })
	b.Run("client", func(b *testing.B) {
		client := dynamotest.Embedded(b)
		s := lease.NewDynamoDB(client, dynamotest.CreateTable(b, client))
		if _, err := leasepool.Open(s, "orders").Seed(b.Context(), leasepool.Spec{Size: 2 * agents}); err != nil {
			b.Fatal(err)
		}
		run(b, s)
	})
}

// weigh starts so many agents, each with a generator that has made an ID, and says
// how many goroutines and bytes of heap and stack each has added.
func weigh(tb testing.TB, s lease.Store, agents int) (goroutines, bytes float64) {
	tb.Helper()
	started := make([]*lease.Agent, agents)
	generators := make([]*snowflake.Generator, agents)
	before, size := runtime.NumGoroutine(), memory()
	for first := 0; first < agents; first += 100 {
		fixture.Together(min(100, agents-first), func(i int) {
			cfg := fixture.Config(s)
			cfg.TTL, cfg.Wait = time.Hour, time.Minute // the test measures the weight of a lease, not the speed of renewals
			a, err := lease.Start(tb.Context(), cfg)
			if err != nil {
				tb.Error(err)
				return
			}
			tb.Cleanup(func() { _ = a.Close() })
			started[first+i] = a
			g, err := snowflake.New(a, snowflake.WithLayout(snowflake.Wide16()))
			if err != nil {
				tb.Error(err)
				return
			}
			if _, err := g.Next(); err != nil {
				tb.Error(err)
			}
			generators[first+i] = g
		})
	}
	goroutines = float64(runtime.NumGoroutine()-before) / float64(agents)
	bytes = float64(memory()-size) / float64(agents)
	runtime.KeepAlive(started)
	runtime.KeepAlive(generators)
	return goroutines, bytes
}

// memory is what heap and stacks take after a collection.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
