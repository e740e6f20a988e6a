package lease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// With leases of common lengths, a holder keeps its node ID over many renewals. Each
// renewal is one conditional write, and the span never ends before the lease.
func TestNamedLeases(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  lease.Config
		d    time.Duration // from the time when a renewal is sent to its deadline
	}{
		{"10 s, 3 s, 2 s", lease.Config{TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Guard: 2 * time.Second}, 8 * time.Second},
		{"the default, 15 s", lease.Config{}, 13 * time.Second},
		{"5 s", lease.Config{TTL: 5 * time.Second}, 4 * time.Second},
		{"economy, 5 min", lease.Config{TTL: 5 * time.Minute}, 298 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(8)
				var ev fixture.Events
				cfg := c.cfg
				cfg.MaxTTL = max(cfg.TTL, map[bool]time.Duration{true: lease.DefaultTTL}[cfg.TTL == 0]) // no growth
				cfg.Store, cfg.Pool, cfg.OnEvent, cfg.Logger = s, "orders", ev.Add, fixture.Config(s).Logger
				a := fixture.Start(t, cfg)
				node, g := a.NodeID(), fixture.IDs(t, a)
				every := cfg.RenewEvery
				if every == 0 {
					every = cfg.MaxTTL / 3
				}
				for range 100 {
					fixture.Wait(every)
					l, err := a.Lease()
					if err != nil || l.NodeID != node || l.Version != 1 {
						t.Fatal(l, err)
					}
					id, err := g.Next()
					if err != nil || id.Node() != node || !id.Time().After(l.NotBefore) || id.Time().After(l.ReservedUntil) {
						t.Fatal(id, err, l)
					}
				}
				for _, e := range ev.Of(lease.EventRenewed) {
					if e.Left != c.d {
						t.Fatalf("%v left after a renewal, want %v", e.Left, c.d)
					}
				}
				if n := len(fixture.WritesOf[protocol.Renew](s)); n < 90 || n > 112 {
					t.Errorf("%d renewals in 100 times RenewEvery", n)
				}
				if got := ev.Of(lease.EventSuspended, lease.EventLost, lease.EventUnanswered); len(got) > 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// With a larger Reserve, a holder continues to make IDs in an outage, although its lease
// is suspended.
func TestLargerReserve(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := fixture.Config(s)
		cfg.Reserve = 10 * time.Minute
		a := fixture.Start(t, cfg)
		g := fixture.IDs(t, a)
		s.SetOutage(errors.New("away"))
		fixture.Wait(10*time.Minute - 2*time.Second - time.Millisecond)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("got %v, want lease.ErrSuspended", err)
		}
		if _, err := g.Next(); err != nil {
			t.Error(err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := g.Next(); !errors.Is(err, snowflake.ErrFenced) {
			t.Errorf("got %v, want snowflake.ErrFenced", err)
		}
	})
}

// Two generators on one agent share one timeline.
func TestTwoGenerators(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		a := fixture.Start(t, fixture.Config(leasetest.NewMemory("orders", 1)))
		one, two := fixture.IDs(t, a), fixture.IDs(t, a)
		seen := map[snowflake.ID]bool{}
		for range 6000 {
			for _, g := range []*snowflake.Generator{one, two} {
				id, err := g.Next()
				if err != nil || seen[id] {
					t.Fatal(id, err, seen[id])
				}
				seen[id] = true
			}
		}
	})
}

// A node ID is released by force while its holder still relies on it. The holder is cut
// off, and its clock is behind. Another agent, whose clock is ahead, has lost its own
// node ID and claims this one. It does not rely on the node ID until, by its own clock,
// the first holder's reservation has passed. So at no time do both agents rely on the
// node ID.
func TestForcedNumberIsNotHeldTwice(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		cfg := fixture.Config(s)
		cfg.OnLost, cfg.Clock = lease.Reacquire, leasetest.NewClock(1480*time.Millisecond)
		b := fixture.Start(t, cfg)
		fixture.Take(t, s, b)
		if _, err := s.Memory.Write(t.Context(), protocol.Retire{Key: protocol.Key{Pool: "orders", NodeID: b.NodeID()}, Retired: true}); err != nil {
			t.Fatal(err)
		}
		cfg = fixture.Config(s)
		cfg.Clock = leasetest.NewClock(-1480 * time.Millisecond)
		a := fixture.Start(t, cfg)
		l, err := a.Lease()
		if err != nil || l.NodeID == b.NodeID() {
			t.Fatal(l, err)
		}
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if r, ok := w.(protocol.Renew); ok && r.Session == l.Holder {
				return fixture.Hang(ctx)
			}
			return do()
		})
		if _, err := s.Memory.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Version: l.Version}); err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			fixture.Wait(10 * time.Millisecond)
			one, err1 := a.Lease()
			two, err2 := b.Lease()
			if err1 == nil && err2 == nil {
				t.Fatalf("both rely on node %d and node %d", one.NodeID, two.NodeID)
			}
		}
		if two, err := b.Lease(); err != nil || two.NodeID != l.NodeID {
			t.Errorf("%+v, %v, want node %d", two, err, l.NodeID)
		}
		s.On(nil)
	})
}

// An agent needs little memory, so that many agents fit into one process.
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

// BenchmarkLease measures the check that precedes each use of a lease.
//
//	go test -run '^$' -bench Lease$ -count 10 ./pkg/lease
func BenchmarkLease(b *testing.B) {
	for _, metadata := range []map[string]string{nil, {"zone": "a", "build": "7"}} {
		b.Run(fmt.Sprintf("metadata=%d", len(metadata)), func(b *testing.B) {
			cfg := fixture.Config(leasetest.NewMemory("orders", 1))
			cfg.TTL, cfg.Metadata = time.Hour, metadata
			a := fixture.Start(b, cfg)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Lease(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAgents measures the memory of 10,000 agents in one process, once with an
// in-memory store and once with one client of the AWS SDK. The figures for the client
// include its connections and its server.
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

// weigh starts the given number of agents, each with a generator that has made an ID. It
// returns how many goroutines, and how many bytes of heap and stack, each agent has
// added.
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

// memory returns the size of the heap and the stacks after a garbage collection.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
