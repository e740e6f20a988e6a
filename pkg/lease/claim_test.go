package lease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func TestPoolExhausted(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 3)
		for range 3 {
			fixture.Start(t, fixture.Config(s))
		}
		_, err := lease.Start(t.Context(), fixture.Config(s))
		var full *lease.ExhaustedError
		if !errors.Is(err, lease.ErrPoolExhausted) || !errors.As(err, &full) {
			t.Fatalf("got %v, want an ExhaustedError", err)
		}
		if left := time.Until(full.NextFree); full.Size != 3 || left != 16*time.Second {
			t.Errorf("%d node IDs, the next in %v: %v", full.Size, left, err)
		}
		if !strings.Contains(err.Error(), "none of the 3 node IDs") || !strings.Contains(err.Error(), "2040-01-02T") {
			t.Error(err)
		}
	})
}

// Five tasks start in a pool of three node IDs. Two of the tasks wait. One gets a node ID
// that is released, and the other gets the node ID of a holder whose lease expires.
func TestWaitForANumber(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(3)
		var first [3]*lease.Agent
		for i := range first {
			first[i] = fixture.Start(t, fixture.Config(s))
		}
		got := make(chan *lease.Agent, 2)
		for range 2 {
			go func() {
				cfg := fixture.Config(s)
				cfg.Wait = 5 * time.Minute
				a, err := lease.Start(t.Context(), cfg)
				if err != nil {
					t.Error(err)
				}
				got <- a
			}()
		}
		fixture.Wait(time.Minute)
		if len(got) > 0 {
			t.Fatal("a fourth holder of three node IDs")
		}
		if err := first[1].Close(); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(3 * time.Second)
		if len(got) != 1 {
			t.Fatal("nobody took the released node ID")
		}
		// The third holder dies silently: from now on, none of its renewals arrives.
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if r, ok := w.(protocol.Renew); ok && r.NodeID == first[2].NodeID() {
				return fixture.Hang(ctx)
			}
			return do()
		})
		fixture.Wait(25 * time.Second)
		if len(got) != 2 {
			t.Fatal("nobody took the dead task's node ID")
		}
		numbers := map[int]bool{first[0].NodeID(): true}
		for range 2 {
			a := <-got
			numbers[a.NodeID()] = true
			defer a.Close()
		}
		if len(numbers) != 3 {
			t.Errorf("held are %v", numbers)
		}
	})
}

// A task that waits for a node ID gets one that was seeded while it waited.
func TestWaitForAResize(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		fixture.Start(t, fixture.Config(s))
		time.AfterFunc(10*time.Second, func() {
			if _, err := leasepool.Open(s, "orders").Resize(context.WithoutCancel(t.Context()), leasepool.Spec{Size: 2}); err != nil {
				t.Error(err)
			}
		})
		cfg := fixture.Config(s)
		cfg.Wait = time.Minute
		a := fixture.Start(t, cfg)
		if _, err := fixture.IDs(t, a).Next(); err != nil || a.NodeID() != 1 {
			t.Errorf("node %d, %v", a.NodeID(), err)
		}
	})
}

func TestWaitEnds(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 1)
		fixture.Start(t, fixture.Config(s))
		cfg := fixture.Config(s)
		cfg.Wait = 10 * time.Second
		began := time.Now()
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrPoolExhausted) || time.Since(began) != cfg.Wait {
			t.Errorf("got %v, %v, want lease.ErrPoolExhausted", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := lease.Start(ctx, cfg); !errors.Is(err, lease.ErrPoolExhausted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want context.DeadlineExceeded", err)
		}
	})
}

// If node IDs are reserved far ahead, a claimant does not conclude that its clock is
// behind. The reason may be a holder with a longer Reserve, even if its lease was freed,
// or a raise. So the claimant waits for the whole of Config.Wait, whether the store sends
// its time or not.
func TestReservedAheadIsNotAClockBehind(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 1)
		cfg := fixture.Config(s)
		cfg.TTL, cfg.Reserve = 10*time.Minute, 20*time.Minute
		a := fixture.Start(t, cfg)
		waits := func(why string) {
			for store, s := range map[string]lease.Store{"no clock": s, "a clock": fixture.ServerTime{Memory: s}} {
				cfg := fixture.Config(s)
				cfg.Wait = 10 * time.Second
				began := time.Now()
				if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrPoolExhausted) || errors.Is(err, lease.ErrClockBehind) || time.Since(began) != cfg.Wait {
					t.Errorf("%s, of a store with %s: got %v after %v, want ErrPoolExhausted after %v", why, store, err, time.Since(began), cfg.Wait)
				}
			}
		}
		waits("held")
		l, _ := a.Lease()
		key := protocol.Key{Pool: "orders", NodeID: 0}
		if _, err := s.Write(t.Context(), protocol.ForceRelease{Key: key, Version: l.Version}); err != nil {
			t.Fatal(err)
		}
		waits("freed")
		if _, err := s.Write(t.Context(), protocol.Raise{Key: key, To: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		waits("raised")
	})
}

// If the clock of a waiting claimant steps back, the claimant reports ErrClockBehind.
func TestClockStepsBackWhileWaiting(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 1)
		fixture.Start(t, fixture.Config(s))
		cfg := fixture.Config(fixture.ServerTime{Memory: s})
		clock := leasetest.NewClock(0)
		cfg.Clock, cfg.Wait = clock, 30*time.Second
		time.AfterFunc(10*time.Second, func() { clock.Step(-time.Hour) })
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrClockBehind) {
			t.Errorf("got %v, want ErrClockBehind", err)
		}
	})
}

// A pool without node IDs to lease causes an error, not a panic.
func TestPoolWithoutNodeIDs(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		_, err := lease.Start(t.Context(), fixture.Config(emptied{leasetest.NewMemory("orders", 1)}))
		var corrupt *lease.CorruptError
		if !errors.As(err, &corrupt) || corrupt.NodeID != -1 {
			t.Errorf("got %v, want a *CorruptError of the pool's item", err)
		}
	})
}

// emptied is a store whose pool has a width but no node IDs.
type emptied struct{ *leasetest.Memory }

func (e emptied) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := e.Memory.PoolItem(ctx, pool)
	p.Eras, p.ExistBelow = snowflake.Eras{{From: time.UnixMilli(0), NodeBits: 9}}, 0
	return p, err
}

// If all node IDs are cooling for a moment, as they are after a forced release, a
// claimant does not conclude that its clock is behind.
func TestCoolingIsNotClockBehind(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 1)
		a := fixture.Start(t, fixture.Config(s))
		l, _ := a.Lease()
		if _, err := s.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: 0}, Version: l.Version}); err != nil {
			t.Fatal(err)
		}
		if _, err := lease.Start(t.Context(), fixture.Config(s)); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Errorf("got %v, want lease.ErrPoolExhausted", err)
		}
		cfg := fixture.Config(s)
		cfg.Wait = 20 * time.Second
		b := fixture.Start(t, cfg)
		if l, err := b.Lease(); err != nil || l.Version != 2 {
			t.Error(l, err)
		}
	})
}

// A herd of 1,024 tasks in a pool of 1,024 node IDs needs at most 2 conditional writes
// per task.
func TestHerdOnMemory(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) { herd(t, leasetest.NewMemory("orders", 1024), 1024) })
}

func TestHerdOnEmbedded(t *testing.T) {
	client := dynamotest.Embedded(t)
	s := lease.NewDynamoDB(client, dynamotest.CreateTable(t, client))
	if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1024}); err != nil {
		t.Fatal(err)
	}
	n := 1024
	if testing.Short() {
		n = 128
	}
	herd(t, s, n)
}

// herd starts n agents at once. Each must get a node ID of its own, with at most 2
// conditional writes on average.
func herd(t *testing.T, store lease.Store, n int) {
	t.Helper()
	s := &fixture.Counter{Store: store}
	agents := make([]*lease.Agent, n)
	var wg sync.WaitGroup
	for i := range agents {
		wg.Go(func() {
			c := fixture.Config(s)
			c.TTL, c.Wait = 10*time.Minute, 10*time.Minute
			a, err := lease.Start(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			agents[i] = a
		})
	}
	wg.Wait()
	perTask := float64(s.Writes.Load()) / float64(n)
	t.Logf("%.2f writes and %.2f queries a task", perTask, float64(s.Queries.Load())/float64(n))
	if perTask > 2 {
		t.Errorf("%.2f writes a task, want at most 2", perTask)
	}
	holder := map[int]int{}
	for i, a := range agents {
		if a == nil {
			continue
		}
		if j, twice := holder[a.NodeID()]; twice {
			t.Errorf("agents %d and %d both hold %d", i, j, a.NodeID())
		}
		holder[a.NodeID()] = i
	}
	for some := range slices.Chunk(agents, 16) { // not all at once, since a release gives up after a few seconds
		for _, a := range some {
			wg.Go(func() {
				if a != nil {
					if err := a.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
}

// A claimant whose claim is refused tries another free node ID of the page that it has read,
// but not a third one: it reads again first.
func TestSecondFreeNodeID(t *testing.T) {
	for refusals, want := range map[int]string{
		0: "claim",
		1: "claim read claim",
		2: "claim read claim claim",
		3: "claim read claim claim read claim",
	} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(16)
			var sent []string
			tried := map[int]bool{}
			s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
				c, ok := w.(protocol.Claim)
				if !ok {
					return do()
				}
				if sent = append(sent, "claim"); tried[c.NodeID] {
					t.Errorf("after %d refusals: node ID %d was tried twice", refusals, c.NodeID)
				}
				tried[c.NodeID] = true
				if len(tried) <= refusals { // another claimant is faster
					other := c
					other.Session = "other"
					if _, err := s.Memory.Write(t.Context(), other); err != nil {
						t.Error(err)
					}
				}
				return do()
			})
			fixture.Start(t, fixture.Config(&reader{s, func() { sent = append(sent, "read") }}))
			if got := strings.Join(sent, " "); got != want {
				t.Errorf("%d refusals: got the requests %q, want %q", refusals, got, want)
			}
		})
	}
}

// If the context ends while a claim is refused, the claimant sends nothing more.
func TestNoSecondClaimAfterTheContext(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(16)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sent := 0
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			c, ok := w.(protocol.Claim)
			if sent++; !ok || sent > 2 {
				t.Errorf("sent %T after the context had ended", w)
				return do()
			}
			if sent == 2 { // the claim that follows a page
				cancel()
			}
			c.Session = "other" // another claimant is faster
			if _, err := s.Memory.Write(t.Context(), c); err != nil {
				t.Error(err)
			}
			return do()
		})
		if _, err := lease.Start(ctx, fixture.Config(s)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

// reader reports each read of a group.
type reader struct {
	*fixture.Network
	read func()
}

func (r *reader) Group(ctx context.Context, pool string, group int) (protocol.Group, error) {
	r.read()
	return r.Network.Group(ctx, pool, group)
}

// The answer to the first claim is lost. The same session claims again, and the refusal
// shows that this session already holds the node ID. Its lease begins at its first
// attempt.
func TestLostAnswerOfAClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		lost := 0
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Claim); ok && lost < 2 {
				lost++
				return fixture.Lose(ctx, do)
			}
			return do()
		})
		began := time.Now()
		var ev fixture.Events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.Add
		a := fixture.Start(t, cfg)
		l, err := a.Lease()
		if err != nil || l.Version != 1 {
			t.Fatal(l, err)
		}
		claims := fixture.WritesOf[protocol.Claim](s)
		for _, c := range claims {
			if c.Session != l.Holder || c.NodeID != l.NodeID {
				t.Errorf("a doubtful node ID was left for another: %+v", c)
			}
		}
		// No renewal is confirmed; the deadline is measured from the first attempt.
		s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Hang(ctx)
		})
		fixture.Wait(time.Until(began.Add(13*time.Second - time.Millisecond)))
		if _, err := a.Lease(); err != nil {
			t.Errorf("before the deadline: %v", err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("at the deadline of the first attempt: %v", err)
		}
		s.On(nil)
	})
}

// A claim that never gets an answer is abandoned when the start ends.
func TestDoubtfulClaimIsAbandoned(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		first := true
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Claim); ok {
				if first {
					first = false
					_, _ = do()
				}
				return fixture.Hang(ctx)
			}
			return do()
		})
		before := fixture.Item(t, s, 0).ReservedUntil
		if _, err := lease.Start(ctx, fixture.Config(s)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want context.DeadlineExceeded", err)
		}
		if l := fixture.Item(t, s, 0); l.Holder != "" || !l.ReservedUntil.Equal(before) {
			t.Errorf("left %+v", l)
		}
	})
}

// The answer to a claim comes after its lease is over, because the process was stopped
// meanwhile. Nothing was stamped, so the agent abandons the node ID and claims with
// another session.
func TestClaimAnsweredAfterItsLease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		late := true
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			if _, ok := w.(protocol.Claim); ok && late {
				late = false
				time.Sleep(14 * time.Second) // virtual
			}
			return res, err
		})
		a := fixture.Start(t, fixture.Config(s))
		l, err := a.Lease()
		if err != nil {
			t.Fatal(err)
		}
		given := fixture.WritesOf[protocol.Abandon](s)
		if len(given) != 1 || given[0].Session == l.Holder {
			t.Errorf("given up: %+v; held: %+v", given, l)
		}
	})
}

// The only free node ID has the largest version that an item may have, so every claim of it is
// refused. A start says at once that the pool is exhausted, and does not claim it again and
// again.
func TestLargestVersionIsNotClaimed(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	s := protocol.NewDynamoDB(client, table)
	if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &table, UpdateExpression: aws.String("SET version = :largest"),
		Key: map[string]types.AttributeValue{
			"pool_group": &types.AttributeValueMemberS{Value: "orders#0"}, "node_id": &types.AttributeValueMemberN{Value: "0"},
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{":largest": &types.AttributeValueMemberN{Value: "9007199254740991"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &fixture.Events{}
	cfg := fixture.Config(s)
	cfg.OnEvent = e.Add
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := lease.Start(ctx, cfg); !errors.Is(err, lease.ErrPoolExhausted) {
		t.Errorf("got %v, want %v", err, lease.ErrPoolExhausted)
	}
	if n := len(e.Of(lease.EventTaken)); n > 1 {
		t.Errorf("%d claims were refused, want only the first guess", n)
	}
}

// One of two node IDs has an item of nearly 400 KB, which is valid for readers, but has no room
// for a claim. A start claims the other node ID. The next one says at once that the pool is
// exhausted.
func TestItemWithoutRoomIsSkipped(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	s := protocol.NewDynamoDB(client, table)
	if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
		t.Fatal(err)
	}
	_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &table, UpdateExpression: aws.String("SET padding = :padding"),
		Key: map[string]types.AttributeValue{
			"pool_group": &types.AttributeValueMemberS{Value: "orders#0"}, "node_id": &types.AttributeValueMemberN{Value: "0"},
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{":padding": &types.AttributeValueMemberS{Value: strings.Repeat("x", 400<<10-100)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e := &fixture.Events{}
	cfg := fixture.Config(s)
	cfg.OnEvent = e.Add
	if a := fixture.Start(t, cfg); a.NodeID() != 1 {
		t.Errorf("got node %d, want 1", a.NodeID())
	}
	if _, err := lease.Start(ctx, cfg); !errors.Is(err, lease.ErrPoolExhausted) || ctx.Err() != nil {
		t.Errorf("got %v, want %v", err, lease.ErrPoolExhausted)
	}
	if n := len(e.Of(lease.EventCorrupt)); n > 2 {
		t.Errorf("%d claims found the item corrupt, want at most one of each start", n)
	}
}
