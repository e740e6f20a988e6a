package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func TestPoolNotSeeded(t *testing.T) {
	_, err := lease.Start(t.Context(), fixture.Config(leasetest.NewMemory("", 0)))
	if !errors.Is(err, lease.ErrPoolNotSeeded) {
		t.Errorf("got %v, want lease.ErrPoolNotSeeded", err)
	}
}

func TestClockSkew(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		for _, c := range []struct {
			off     time.Duration
			refused bool
		}{{0, false}, {time.Second, false}, {-time.Second, false}, {3 * time.Second, true}, {-4 * time.Second, true}, {-time.Hour, true}, {time.Hour, true}} {
			a, err := lease.Start(t.Context(), fixture.Config(fixture.ServerTime{Memory: leasetest.NewMemory("orders", 1), Off: c.off}))
			if errors.Is(err, lease.ErrClockSkew) != c.refused {
				t.Errorf("off by %v: %v", c.off, err)
			}
			if err != nil && strings.Count(err.Error(), "2040-01-0") != 2 {
				t.Errorf("not both times: %v", err)
			}
			if a != nil {
				_ = a.Close()
			}
		}
	})
}

// If a store never answers, the start ends in time, and its error contains the last
// failure.
func TestStartGivesUp(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 1)
		s.SetOutage(errors.New("connection refused"))
		began := time.Now()
		_, err := lease.Start(t.Context(), fixture.Config(s))
		if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "no answer") || time.Since(began) != 30*time.Second {
			t.Error(err, time.Since(began))
		}
	})
}

// A corrupt item does not block a start.
func TestCorruptItemIsSkipped(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		var ev fixture.Events
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Claim); ok && w.Item().NodeID == 0 {
				return protocol.Result{}, &lease.CorruptError{Pool: "orders", NodeID: 0, Err: errors.New("version is missing")}
			}
			return do()
		})
		for range 1 {
			cfg := fixture.Config(s)
			cfg.OnEvent = ev.Add
			if a := fixture.Start(t, cfg); a.NodeID() != 1 {
				t.Error(a.NodeID())
			}
		}
	})
}

func TestStartContextEndsNothing(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a, err := lease.Start(ctx, fixture.Config(fixture.NewNetwork(1)))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		fixture.Wait(time.Hour)
		if _, err := a.Lease(); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A start retries for Config.Wait after errors that may go away during a deployment.
// After permanent errors it fails at once. If Wait is 0, it fails at once after all
// errors.
func TestStartRidesErrorsOut(t *testing.T) {
	for _, c := range []struct {
		err  error
		wait time.Duration
		want time.Duration // the time until the start ends
	}{
		{lease.ErrAccess, 0, 0}, {lease.ErrAccess, time.Minute, 20 * time.Second}, {lease.ErrAccess, 10 * time.Second, 10 * time.Second},
		{lease.ErrClockSkew, time.Minute, 20 * time.Second}, {lease.ErrPoolNotSeeded, time.Minute, 20 * time.Second},
		{lease.ErrItemFormat, time.Minute, 0}, {lease.ErrTable, time.Minute, 0}, {lease.ErrUnsafeReplication, time.Minute, 0},
		{lease.ErrAccess, math.MaxInt64, 20 * time.Second},
	} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			began := time.Now()
			s.On(func(_ context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
				if time.Since(began) < 20*time.Second {
					return protocol.Result{}, fmt.Errorf("%w: for 20 seconds", c.err)
				}
				return do()
			})
			cfg := fixture.Config(s)
			cfg.Wait = c.wait
			a, err := lease.Start(t.Context(), cfg)
			if late := time.Since(began) - c.want; late < 0 || late > 2*time.Second || (err == nil) != (c.want == 20*time.Second) || err != nil && !errors.Is(err, c.err) {
				t.Errorf("%v with Wait %v: got %v after %v, want an end after %v", c.err, c.wait, err, time.Since(began), c.want)
			}
			if a != nil {
				_ = a.Close()
			}
		})
	}
}

// seedsCounted counts how often each node ID was seeded.
type seedsCounted struct {
	lease.Store
	mu    sync.Mutex
	times map[int]int
	tries int
}

func (s *seedsCounted) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	res, err := s.Store.Write(ctx, w)
	if w, ok := w.(protocol.Seed); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tries++
		if res.Applied {
			s.times[w.NodeID]++
		}
	}
	return res, err
}

// A fleet starts at once on an empty table, and every agent may seed. Each node ID is
// seeded once, and each agent gets a node ID.
func TestFleetSeeds(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s lease.Store, _ func(int)) {
		const agents = 100
		counted := &seedsCounted{Store: s, times: map[int]int{}}
		var mu sync.Mutex
		holders := map[int]int{}
		fixture.Together(agents, func(int) {
			cfg := fixture.Config(counted)
			cfg.SeedIfMissing, cfg.Wait = &leasepool.Spec{Size: agents}, 20*time.Second
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = a.Close() })
			mu.Lock()
			defer mu.Unlock()
			holders[a.NodeID()]++
		})
		for n := range agents {
			if counted.times[n] != 1 || holders[n] != 1 {
				t.Errorf("node %d was seeded %d times and has %d holders", n, counted.times[n], holders[n])
			}
		}
		if len(counted.times) != agents || len(holders) != agents {
			t.Errorf("%d node IDs seeded, %d held", len(counted.times), len(holders))
		}
		t.Logf("%d writes to seed %d node IDs", counted.tries, agents)
	})
}

// judged is a table with a fixed verdict. It counts how often it is checked.
type judged struct {
	*fixture.Network
	unsafe error
	asked  atomic.Int64
}

func (j *judged) Check(context.Context) error {
	j.asked.Add(1)
	return j.unsafe
}

func (j *judged) Judge(ctx context.Context) (*protocol.Verdict, error) {
	v, err := j.Network.Judge(ctx)
	if v != nil && j.unsafe != nil {
		v.Safe = false
	}
	return v, errors.Join(err, j.unsafe)
}

// A start checks the table only if there is no valid verdict.
func TestStartByVerdict(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &judged{Network: fixture.NewNetwork(8)}
		start := func(want int64, why string) {
			t.Helper()
			s.asked.Store(0)
			fixture.Start(t, fixture.Config(s))
			if got := s.asked.Load(); got != want {
				t.Errorf("%s: asked %d times, want %d", why, got, want)
			}
		}
		pool := leasepool.Open(s, "orders")
		start(1, "without a verdict")
		if _, err := pool.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		start(0, "with one")
		fixture.Wait(time.Hour)
		start(0, "with one of an hour ago")
		fixture.Wait(time.Millisecond)
		start(1, "with an older one")
		if _, err := pool.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		start(0, "with a new one")
		if _, err := pool.Raise(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if p, err := s.PoolItem(t.Context(), "orders"); err != nil || p.Verdict != nil {
			t.Errorf("after a raise: %+v, %v, want no verdict", p.Verdict, err)
		}
	})
}

// An agent that reads an unsafe verdict checks the table, and no agent claims or seeds in
// an unsafe table.
func TestUnsafeIsAskedAgain(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &judged{Network: fixture.NewNetwork(8), unsafe: lease.ErrUnsafeReplication}
		pool := leasepool.Open(s, "orders")
		if c, err := pool.Tend(t.Context()); !errors.Is(err, lease.ErrUnsafeReplication) || c.Pool.Verdict == nil || c.Pool.Verdict.Safe {
			t.Fatalf("got %+v, %v, want that it is unsafe", c.Pool.Verdict, err)
		}
		cfg, before := fixture.Config(s), s.Writes()
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrUnsafeReplication) || s.Writes() != before {
			t.Errorf("got %v after %d writes, want a refusal and none", err, s.Writes()-before)
		}
		cfg.Pool, cfg.SeedIfMissing = "missing", &leasepool.Spec{Size: 2}
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrUnsafeReplication) {
			t.Errorf("got %v, want a refusal", err)
		}
		if _, err := s.PoolItem(t.Context(), "missing"); !errors.Is(err, lease.ErrPoolNotSeeded) {
			t.Errorf("got %v, want that nothing was seeded", err)
		}
		s.unsafe = nil // the replica was removed
		s.asked.Store(0)
		fixture.Start(t, fixture.Config(s))
		if s.asked.Load() != 1 {
			t.Errorf("asked %d times, want once", s.asked.Load())
		}
	})
}

// Tend stores its verdict when it differs from the stored one, at once if the table is
// unsafe.
func TestTendVouches(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &judged{Network: fixture.NewNetwork(8)}
		pool := leasepool.Open(s, "orders")
		tend := func() *protocol.Verdict {
			t.Helper()
			c, err := pool.Tend(t.Context())
			if !errors.Is(err, s.unsafe) {
				t.Fatalf("got %v, want s.unsafe", err)
			}
			if p, err := s.PoolItem(t.Context(), "orders"); err != nil || *p.Verdict != *c.Pool.Verdict || p.Revision != 1 {
				t.Fatalf("got %+v, %v, want %+v and the revision as it was", p, err, c.Pool.Verdict)
			}
			return c.Pool.Verdict
		}
		first := tend()
		if !first.Safe || first.By != "tend" || !first.At.Equal(time.Now()) {
			t.Errorf("got %+v", first)
		}
		fixture.Wait(20*time.Minute - time.Millisecond)
		if v := tend(); *v != *first {
			t.Errorf("got %+v, want no write for the same", v)
		}
		fixture.Wait(time.Millisecond)
		second := tend()
		if !second.At.Equal(time.Now()) {
			t.Errorf("got %+v, want a new one", second)
		}
		s.unsafe = lease.ErrUnsafeReplication
		if v := tend(); v.Safe {
			t.Errorf("got %+v, want that it is unsafe", v)
		}
	})
}

// skewed is a table whose clock differs from this machine's.
type skewed struct {
	*judged
	off time.Duration
}

func (s *skewed) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.judged.PoolItem(ctx, pool)
	p.ServerTime = time.Now().Add(s.off).Truncate(time.Second)
	return p, err
}

// Tend stores no verdict if its clock is wrong: if the clock were ahead, the verdict
// would be valid long after it should be out of date.
func TestNoVerdictByAWrongClock(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &skewed{&judged{Network: fixture.NewNetwork(8)}, -time.Hour}
		if _, err := leasepool.Open(s, "orders").Tend(t.Context()); !errors.Is(err, lease.ErrClockSkew) {
			t.Errorf("got %v, want ErrClockSkew", err)
		}
		if p, err := s.PoolItem(t.Context(), "orders"); err != nil || p.Verdict != nil {
			t.Errorf("got %+v, %v, want no verdict", p.Verdict, err)
		}
	})
}

// interrupted is a store that cancels a context at its nth call, before or after it
// executes that call.
type interrupted struct {
	*fixture.Network
	calls, nth int
	after      bool
	cancel     context.CancelFunc
}

func (i *interrupted) call() (done func()) {
	i.calls++
	if i.calls != i.nth {
		return func() {}
	}
	if !i.after {
		i.cancel()
	}
	return i.cancel
}

func (i *interrupted) Check(ctx context.Context) error {
	defer i.call()()
	return i.Network.Check(ctx)
}

func (i *interrupted) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	defer i.call()()
	return i.Network.PoolItem(ctx, pool)
}

func (i *interrupted) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	defer i.call()()
	return i.Network.Group(ctx, pool, n)
}

func (i *interrupted) Get(ctx context.Context, pool string, node int) (*protocol.Lease, error) {
	defer i.call()()
	return i.Network.Get(ctx, pool, node)
}

func (i *interrupted) Note(ctx context.Context, pool string) (protocol.Note, error) {
	defer i.call()()
	return i.Network.Note(ctx, pool)
}

func (i *interrupted) WriteNote(ctx context.Context, w protocol.NoteWrite) (protocol.Note, bool, error) {
	defer i.call()()
	return i.Network.WriteNote(ctx, w)
}

func (i *interrupted) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	defer i.call()()
	return i.Network.Write(ctx, w)
}

// A start whose context ends at any call or wait returns at once and leaves no
// node ID held.
func TestStartIsCanceledAnywhere(t *testing.T) {
	for nth := 1; nth <= 16; nth++ {
		for _, after := range []bool{false, true} {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(2)
				fixture.Hold(t, s, 0, time.Now(), time.Minute)
				fixture.Hold(t, s, 1, time.Now(), 10*time.Second) // so that the start searches and waits first
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				store := &interrupted{Network: s, nth: nth, after: after, cancel: cancel}
				cfg := fixture.Config(store)
				cfg.Wait = time.Minute
				a, err := lease.Start(ctx, cfg)
				if a != nil {
					_ = a.Close() // the start succeeded before the nth call
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("call %d: got %v, want canceled", nth, err)
				}
				for n := range 2 {
					if l := fixture.Item(t, s, n); l.Holder != "" && l.Task == "test" {
						t.Errorf("call %d, after it: %v: left %+v", nth, after, l)
					}
				}
			})
		}
	}
}

// If the context of a start ends while the node ID is still reserved for its last holder,
// the start also returns at once.
func TestStartIsCanceledBeforeNotBefore(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(0)
		// The node ID is reserved for 900 ms. This is within the claim guard, so the node ID
		// can be claimed.
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1, Floor: time.Now().Add(900 * time.Millisecond)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := lease.Start(ctx, fixture.Config(s)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if l := fixture.Item(t, s, 0); l.Holder != "" {
			t.Errorf("left %+v", l)
		}
	})
}
