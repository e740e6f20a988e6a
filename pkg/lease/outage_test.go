package lease_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// The table's answer about how long a holder makes IDs without it is right: the holder
// does until then, by its own clock for at most as long as the guards more.
func TestIDsUntilIsTrue(t *testing.T) {
	for name, c := range map[string]struct {
		lives time.Duration
		least time.Duration
	}{"a short lease": {time.Minute, 0}, "a grown lease": {8 * time.Hour, 3 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(64)
				measuring(t, s, one)
				events := make(chan lease.Event, 1)
				cfg := growing(s)
				cfg.OnEvent = func(e lease.Event) {
					select {
					case <-events:
					default:
					}
					events <- e
				}
				a := fixture.Start(t, cfg)
				g := ids(t, a)
				fixture.Wait(c.lives)
				s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
					return fixture.Hang(ctx)
				})
				until := item(t, s, a.NodeID()).IDsUntil()
				left := time.Until(until)
				if left < c.least || left > a.IDsLeft() || a.IDsLeft()-left > 3*time.Second {
					t.Errorf("the table says %v, the holder %v", left, a.IDsLeft())
				}
				fixture.Wait(left - time.Millisecond)
				if _, err := g.Next(); err != nil {
					t.Errorf("a moment before %v: %v", left, err)
				}
				if e := <-events; e.IDsLeft <= 0 || e.IDsLeft > left+3*time.Second {
					t.Errorf("the last event, %s, says %v, want more than 0 and at most %v", e.Kind, e.IDsLeft, left)
				}
				fixture.Wait(a.IDsLeft() + time.Millisecond)
				if id, err := g.TryNext(); err == nil {
					t.Errorf("made %v after the time that it said", id)
				}
				if got := a.IDsLeft(); got > 0 {
					t.Errorf("it makes no more IDs, and says %v", got)
				}
			})
		})
	}
}

// away is a store that can be away for everybody, as a Region is: requests are given
// up, and what was under way is not done.
type away struct {
	*leasetest.Memory
	gone atomic.Bool
}

func (a *away) lost(ctx context.Context) error {
	if !a.gone.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (a *away) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if err := a.lost(ctx); err != nil {
		return protocol.PoolItem{}, err
	}
	return a.Memory.PoolItem(ctx, pool)
}

func (a *away) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	if err := a.lost(ctx); err != nil {
		return protocol.Group{}, err
	}
	return a.Memory.Group(ctx, pool, n)
}

func (a *away) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if err := a.lost(ctx); err != nil {
		return protocol.Result{}, err
	}
	return a.Memory.Write(ctx, w)
}

func (a *away) Note(ctx context.Context, pool string) (protocol.Note, error) {
	if err := a.lost(ctx); err != nil {
		return protocol.Note{}, err
	}
	return a.Memory.Note(ctx, pool)
}

func (a *away) Get(ctx context.Context, pool string, node int) (*lease.Lease, error) {
	if err := a.lost(ctx); err != nil {
		return nil, err
	}
	return a.Memory.Get(ctx, pool, node)
}

// A fleet holds all of its pool, and as many processes wait, some since before the
// outage and some since a time in it. When it is over every holder resumes. Leases of
// processes that died in it are taken soon after.
func TestOutageOfAFullPool(t *testing.T) {
	for _, size := range []int{1, 8, 40} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := &away{Memory: leasetest.NewMemory("orders", size+1)}
				dies := &away{Memory: s.Memory}
				dead := fixture.Start(t, fixture.Config(dies))
				var holders []*lease.Agent
				for range size {
					holders = append(holders, fixture.Start(t, fixture.Config(s)))
				}
				ctx, cancel := context.WithCancel(t.Context())
				claimed := make(chan int, 2*size+1)
				var waiting sync.WaitGroup
				wait := func() {
					waiting.Go(func() {
						cfg := fixture.Config(s)
						cfg.Wait = time.Hour
						a, err := lease.Start(ctx, cfg)
						if err != nil {
							return
						}
						claimed <- a.NodeID()
						_ = a.Close()
					})
				}
				for range size {
					wait()
				}
				fixture.Wait(time.Minute)
				s.gone.Store(true)
				dies.gone.Store(true) // for good
				fixture.Wait(2 * time.Minute)
				for range size {
					wait()
				}
				fixture.Wait(time.Minute)
				s.gone.Store(false)
				fixture.Wait(5 * time.Second)
				for _, a := range holders {
					if _, err := a.Lease(); err != nil {
						t.Errorf("node ID %d after an outage that all had: got %v, want that its holder has resumed", a.NodeID(), err)
					}
				}
				if len(claimed) > 0 {
					t.Fatalf("%d of those who waited have node IDs, the first %d: nobody can know yet who resumes", len(claimed), <-claimed)
				}
				fixture.Wait(15 * time.Second) // a request that hangs is given up after five
				if len(claimed) == 0 {
					t.Error("the node ID of a process that died in the outage is free still")
				} else if n := <-claimed; n != dead.NodeID() {
					t.Errorf("got node ID %d, want %d, whose holder died", n, dead.NodeID())
				}
				cancel()
				waiting.Wait()
			})
		})
	}
}
