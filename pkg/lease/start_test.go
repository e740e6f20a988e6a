package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
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
		t.Error(err)
	}
}

// serverTime is a store whose clock is off.
type serverTime struct {
	*leasetest.Memory
	off time.Duration
}

func (s serverTime) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.Memory.PoolItem(ctx, pool)
	p.ServerTime = time.Now().Add(s.off).Truncate(time.Second)
	return p, err
}

func TestClockSkew(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		for _, c := range []struct {
			off     time.Duration
			refused bool
		}{{0, false}, {time.Second, false}, {-time.Second, false}, {3 * time.Second, true}, {-4 * time.Second, true}, {-time.Hour, true}, {time.Hour, true}} {
			a, err := lease.Start(t.Context(), fixture.Config(serverTime{leasetest.NewMemory("orders", 1), c.off}))
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

// A store that never answers ends the start in time, and says what it heard.
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

// A corrupt item blocks nobody.
func TestCorruptItemIsSkipped(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		var ev events
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Claim); ok && w.Item().NodeID == 0 {
				return protocol.Result{}, &lease.CorruptError{Pool: "orders", NodeID: 0, Err: errors.New("version is missing")}
			}
			return do()
		})
		for range 1 {
			cfg := fixture.Config(s)
			cfg.OnEvent = ev.add
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

// Errors that may pass while a deployment goes on are given Config.Wait to do so; permanent
// errors, and all errors without a Wait, fail at once.
func TestStartRidesErrorsOut(t *testing.T) {
	for _, c := range []struct {
		err  error
		wait time.Duration
		want time.Duration // until the start ends
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

// seedsCounted counts how often each number was seeded.
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

// A fleet starts at once on an empty table, and every agent may seed: each number
// is seeded once, and each agent gets one.
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
			t.Errorf("%d numbers seeded, %d held", len(counted.times), len(holders))
		}
		t.Logf("%d writes to seed %d numbers", counted.tries, agents)
	})
}
