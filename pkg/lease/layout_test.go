package lease_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// turns lets one request of one actor at a time reach the table, in an order drawn by
// lot, and repeats a write of the pool's item now and then.
type turns struct {
	*leasetest.Memory
	dice    *rand.Rand
	first   string // the actor whose turn it mostly is
	waiting chan turn

	mu    sync.Mutex
	sent  []protocol.PoolWrite
	reads map[string]int // of the pool's item
}

type turn struct {
	actor string
	begin chan struct{}
}

// actor is how one actor reaches the table.
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

// play runs the actors to their ends.
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
			time.Sleep(time.Millisecond) // virtual: someone sleeps, or has just ended
			continue
		}
		slices.SortFunc(ready, func(a, b turn) int { // else the lot is not the same in each run
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
		synctest.Wait() // until that request is done
		if len(s.sent) > 0 && s.dice.IntN(4) == 0 {
			if _, err := s.Memory.WritePool(t.Context(), s.sent[s.dice.IntN(len(s.sent))]); err != nil {
				t.Error(err)
			}
		}
	}
}

// Two agents start, an operator corrects the layout, and the reaper marks it as final,
// in hundreds of orders: all generators have the layout that the pool has in the end.
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
			made := map[string]string{} // layouts of generators, by agent
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
					if err == nil { // else an operator is at it
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
			// Run again, it ends what it has begun.
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
