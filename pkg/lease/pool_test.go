package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// refused checks that an error contains all of the given texts.
func refused(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error that says %q", err, text)
		}
	}
}

// layoutOf reads the layout of the pool "orders"; "" means that the pool has no layout.
func layoutOf(t *testing.T, s protocol.Store) string {
	t.Helper()
	p, err := s.PoolItem(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if p.Layout == nil {
		return ""
	}
	return leasepool.LayoutName(p.Layout.Snowflake())
}

// The first agent that is about to make IDs binds the layout of the pool, before it makes
// its first ID. All other agents use that layout. If an agent requests a different
// layout, it gets an error that names both layouts.
func TestLayoutBelongsToThePool(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		idle := fixture.Start(t, fixture.Config(s))
		if got := layoutOf(t, s); got != "" {
			t.Errorf("an agent that makes no IDs bound %q, want none", got)
		}
		first := fixture.Start(t, fixture.Config(s))
		g, err := snowflake.New(first, snowflake.WithLayout(snowflake.JS53()))
		if err != nil {
			t.Fatal(err)
		}
		if got := layoutOf(t, s); got != "js53" {
			t.Errorf("the pool has layout %q, want js53", got)
		}
		second := fixture.Start(t, fixture.Config(s))
		_, err = snowflake.New(second, snowflake.WithLayout(snowflake.Default()))
		refused(t, err, "js53", "default")
		_, err = snowflake.New(second.Timeline(), snowflake.WithLayout(snowflake.Default())) // the agent's timeline also refuses a different layout
		refused(t, err, "js53", "default")
		writes := s.Writes()
		for _, n := range []snowflake.Node{first, second, idle} {
			other, err := snowflake.New(n)
			if err != nil {
				t.Fatal(err)
			}
			if other.Layout().String() != g.Layout().String() {
				t.Errorf("a generator has layout %v, want the pool's, %v", other.Layout(), g.Layout())
			}
		}
		if got := s.Writes() - writes; got != 0 {
			t.Errorf("taking a bound layout cost %d writes, want 0", got)
		}
	})
}

// While the store does not answer, no ID is made, since the agent cannot read the pool's
// layout.
func TestLayoutNeedsAnAnswer(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 8)
		a := fixture.Start(t, fixture.Config(s))
		s.SetOutage(errors.New("away"))
		if g, err := snowflake.New(a); err == nil {
			t.Errorf("got a generator of layout %v during an outage, want an error", g.Layout())
		}
		s.SetOutage(nil)
		if got := layoutOf(t, s); got != "" {
			t.Errorf("the pool has layout %q, want none", got)
		}
		if _, err := snowflake.New(a); err != nil {
			t.Error(err)
		}
	})
}

// If a pool without a layout is too large for the requested layout, the agent gets an
// error that names the remedy, and nothing is bound.
func TestLayoutTooSmallForThePool(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 2048)
		a := fixture.Start(t, fixture.Config(s))
		_, err := snowflake.New(a)
		refused(t, err, "2048", "wide16")
		if got := layoutOf(t, s); got != "" {
			t.Errorf("the pool has layout %q, want none", got)
		}
		if _, err := snowflake.New(a, snowflake.WithLayout(snowflake.Wide16())); err != nil {
			t.Error(err)
		}
	})
}

// An operator may correct the layout until an agent has claimed a node ID, even if that
// agent has not read the layout yet.
func TestSetLayout(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		p := leasepool.Open(s, "orders")
		if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.JS53()}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.SetLayout(t.Context(), snowflake.Wide16()); err != nil || layoutOf(t, s) != "wide16" {
			t.Fatalf("got layout %q, %v, want wide16", layoutOf(t, s), err)
		}
		fixture.Start(t, fixture.Config(s))
		_, err := p.SetLayout(t.Context(), snowflake.Default())
		refused(t, err, "claimed", "wide16")
		if got := layoutOf(t, s); got != "wide16" {
			t.Errorf("the pool has layout %q, want wide16", got)
		}
	})
}

// turns passes one request at a time on to the table, in a random order of actors, and
// sometimes repeats a write of the pool's item.
type turns struct {
	*leasetest.Memory
	dice    *rand.Rand
	first   string // the actor that gets most of the turns
	waiting chan turn

	mu    sync.Mutex
	sent  []protocol.PoolWrite
	reads map[string]int // reads of the pool's item, by actor
}

type turn struct {
	actor string
	begin chan struct{}
}

// actor is the store that one actor uses.
type actor struct {
	*turns
	name string
}

func (a actor) wait() {
	b := make(chan struct{})
	a.waiting <- turn{a.name, b}
	<-b
}

func (a actor) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	a.wait()
	a.mu.Lock()
	a.reads[a.name]++
	a.mu.Unlock()
	return a.Memory.PoolItem(ctx, pool)
}

func (a actor) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	a.wait()
	return a.Memory.Group(ctx, pool, n)
}

func (a actor) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	a.wait()
	return a.Memory.Write(ctx, w)
}

func (a actor) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	a.wait()
	a.mu.Lock()
	a.sent = append(a.sent, w)
	a.mu.Unlock()
	return a.Memory.WritePool(ctx, w)
}

// play runs the actors until all of them have ended.
func (s *turns) play(t *testing.T, actors map[string]func(lease.Store)) {
	left := len(actors)
	ended := make(chan struct{}, left)
	for name, act := range actors {
		go func() {
			act(actor{s, name})
			ended <- struct{}{}
		}()
	}
	var ready []turn
	for left > 0 {
		synctest.Wait()
		for len(s.waiting) > 0 {
			ready = append(ready, <-s.waiting)
		}
		for ; len(ended) > 0; left-- {
			<-ended
		}
		if len(ready) == 0 {
			time.Sleep(time.Millisecond) // virtual: an actor sleeps, or has just ended
			continue
		}
		slices.SortFunc(ready, func(a, b turn) int { // so that the order is the same in each run
			if a.actor < b.actor {
				return -1
			}
			return 1
		})
		n := s.dice.IntN(len(ready))
		if i := slices.IndexFunc(ready, func(r turn) bool { return r.actor == s.first }); i >= 0 && s.dice.IntN(8) > 0 {
			n = i
		}
		close(ready[n].begin)
		ready = slices.Delete(ready, n, n+1)
		synctest.Wait() // wait until that request is done
		if len(s.sent) > 0 && s.dice.IntN(4) == 0 {
			if _, err := s.Memory.WritePool(t.Context(), s.sent[s.dice.IntN(len(s.sent))]); err != nil {
				t.Error(err)
			}
		}
	}
}

// Two agents start, an operator corrects the layout, and the reaper marks the layout as
// final, in hundreds of different orders. All generators have the layout that the pool
// has in the end.
func TestLayoutInAnyOrder(t *testing.T) {
	trusted, corrected := 0, 0
	for seed := range uint64(300) {
		fixture.Virtual(t, func(t *testing.T) {
			table := leasetest.NewMemory("", 0)
			if _, err := leasepool.Open(table, "orders").Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.Discord()}); err != nil {
				t.Fatal(err)
			}
			s := &turns{Memory: table, dice: rand.New(rand.NewPCG(seed, 0)), waiting: make(chan turn, 8), reads: map[string]int{}}
			s.first = []string{"agent 1", "operator", "reaper", "nobody"}[seed%4]
			made := map[string]string{} // the layouts of generators, by agent
			agents := map[string]*lease.Agent{}
			start := func(name string) func(lease.Store) {
				return func(at lease.Store) {
					a, err := lease.Start(t.Context(), fixture.Config(at))
					if err != nil {
						t.Error(err)
						return
					}
					g, err := snowflake.New(a)
					s.mu.Lock()
					defer s.mu.Unlock()
					agents[name] = a
					if err == nil { // otherwise an operator is changing the layout
						made[name] = g.Layout().String()
					}
				}
			}
			s.play(t, map[string]func(lease.Store){
				"agent 1": start("agent 1"), "agent 2": start("agent 2"),
				"operator": func(at lease.Store) { _, _ = leasepool.Open(at, "orders").SetLayout(t.Context(), snowflake.Wide16()) },
				"reaper": func(at lease.Store) {
					if _, err := leasepool.Open(at, "orders").Reap(t.Context()); err != nil {
						t.Error(err)
					}
				},
			})
			// A second run finishes what the first run has begun.
			_, _ = leasepool.Open(table, "orders").SetLayout(t.Context(), snowflake.JS53())
			p, err := table.PoolItem(t.Context(), "orders")
			if err != nil || p.Layout == nil || p.LayoutBefore != nil {
				t.Fatalf("seed %d: got %+v, %v, want a layout", seed, p, err)
			}
			for name, layout := range made {
				if want := p.Layout.Snowflake().String(); layout != want {
					t.Errorf("seed %d: %s makes IDs of the layout %s, and the pool has %s (final: %v)", seed, name, layout, want, p.LayoutFinal)
				}
				if s.reads[name] == 1 {
					trusted++
				}
			}
			if *p.Layout == protocol.LayoutOf(snowflake.Wide16()) {
				corrected++
			}
			closing := map[string]func(lease.Store){}
			for name, a := range agents {
				closing["close "+name] = func(lease.Store) { _ = a.Close() }
			}
			s.play(t, closing)
		})
	}
	t.Logf("%d agents read the pool's item once, and the layout was corrected %d times", trusted, corrected)
	if trusted < 3 || corrected < 3 {
		t.Errorf("%d agents read the pool's item once, and the layout was corrected %d times: the orders show nothing", trusted, corrected)
	}
}

// leasesOnly is a client whose role may write leases, but not the pool's item.
type leasesOnly struct{ *dynamodb.Client }

func (c leasesOnly) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if key, _ := in.Key["pool_group"].(*types.AttributeValueMemberS); key != nil && !strings.Contains(key.Value, "#") {
		return nil, &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: dynamodb:UpdateItem"}
	}
	return c.Client.UpdateItem(ctx, in, o...)
}

// An agent that may not write the pool's item leases a node ID from the open groups,
// emits one warning, and continues. The reaper function opens more groups.
func TestAgentThatMayNotWriteThePool(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	all := lease.NewDynamoDB(client, table)
	pool := leasepool.Open(all, "orders")
	// The open group contains the node IDs 1276 to 1279, and the next group contains 20 node
	// IDs.
	if _, err := pool.Seed(t.Context(), leasepool.Spec{Size: 1300, ExcludeBelow: 1276, Layout: snowflake.Wide16()}); err != nil {
		t.Fatal(err)
	}
	var seen fixture.Events
	cfg := fixture.Config(lease.NewDynamoDB(leasesOnly{client}, table))
	cfg.OnEvent = seen.Add
	var agents []*lease.Agent
	for range 4 {
		agents = append(agents, fixture.Start(t, cfg))
	}
	for _, a := range agents {
		if _, err := fixture.IDs(t, a).Next(); err != nil {
			t.Error(err)
		}
	}
	if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrPoolExhausted) {
		t.Fatalf("got %v, want that the open groups are full", err)
	}
	said := 0
	for _, e := range seen.Of(lease.EventWarning) {
		if errors.Is(e.Err, lease.ErrAccess) {
			said++
		}
	}
	if said == 0 || said > 5 { // one warning for each start that searched
		t.Errorf("%d warnings that the pool's item may not be written, want one for each start that looked", said)
	}
	if c, err := pool.Tend(t.Context()); err != nil || c.Pool.OpenGroups != 6 {
		t.Fatalf("%+v, %v: want that the next group was opened", c.Pool, err)
	}
	if l, err := fixture.Start(t, cfg).Lease(); err != nil || l.NodeID < 1280 {
		t.Errorf("%+v, %v: want a node ID of the group that was opened", l, err)
	}
}

// If the pool has no layout, an agent that may not bind a layout makes no IDs, since it
// must not guess the layout.
func TestAgentThatMayNotBindTheLayout(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	all := lease.NewDynamoDB(client, table)
	if _, err := leasepool.Open(all, "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
		t.Fatal(err)
	}
	agent := fixture.Start(t, fixture.Config(lease.NewDynamoDB(leasesOnly{client}, table)))
	if _, err := snowflake.New(agent); !errors.Is(err, lease.ErrAccess) {
		t.Errorf("got %v, want that it may not", err)
	}
	if _, err := agent.Lease(); err != nil {
		t.Errorf("it lost its lease over that: %v", err)
	}
	if _, err := leasepool.Open(all, "orders").SetLayout(t.Context(), snowflake.Default()); err != nil {
		t.Fatal(err)
	}
	if _, err := snowflake.New(agent); err != nil {
		t.Error(err)
	}
}

// noPool is a store that refuses writes of the pool's item.
type noPool struct{ lease.Store }

func (noPool) WritePool(context.Context, protocol.PoolWrite) (protocol.PoolResult, error) {
	return protocol.PoolResult{}, lease.ErrAccess
}

// If nobody finishes a widening, and an agent may not end it, the agent continues until
// the end of its span. Then the agent is suspended, and it resumes once another process
// has ended the try.
func TestAgentThatMayNotEndAWidening(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		store := leasetest.NewMemory("orders", 0)
		pool := leasepool.Open(store, "orders")
		if _, err := pool.Seed(t.Context(), leasepool.Spec{Size: 512, ExcludeBelow: 250, Narrow: true, Layout: snowflake.Wide16()}); err != nil {
			t.Fatal(err)
		}
		agent := fixture.Start(t, fixture.Config(noPool{store}))
		g := fixture.IDs(t, agent)
		item, err := store.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		res, err := store.WritePool(t.Context(), protocol.BeginWiden{
			Pool: "orders", Try: 1, Seen: item.Widening.State, From: time.Now().Add(time.Minute), Bits: 10, ExistBelow: item.ExistBelow})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		l, err := agent.Lease()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Write(t.Context(), protocol.Mark{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Try: 1, From: res.Pool.Widening.From}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(2 * time.Minute)
		if _, err := g.TryNext(); err == nil {
			t.Error("it made an ID behind the beginning of a width that it does not know")
		}
		if _, err := store.WritePool(t.Context(), protocol.VoidWiden{Pool: "orders", Try: 1}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Minute)
		if _, err := g.Next(); err != nil {
			t.Errorf("it did not resume: %v", err)
		}
	})
}
