package leasepool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// distant is a store that answers after 5 ms, as a table does.
type distant struct{ *leasetest.Memory }

func (s distant) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	time.Sleep(5 * time.Millisecond) // virtual
	return s.Memory.PoolItem(ctx, pool)
}

func (s distant) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	time.Sleep(5 * time.Millisecond) // virtual
	return s.Memory.Group(ctx, pool, n)
}

func (s distant) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	time.Sleep(5 * time.Millisecond) // virtual
	return s.Memory.Write(ctx, w)
}

// crew is a pool with live processes, one process that has crashed, and a reaper. A
// schedule starts the reaper every minute, whether earlier runs have ended or not.
type crew struct {
	t       *testing.T
	memory  *leasetest.Memory
	agents  []*lease.Agent
	crashed protocol.Lease
	runs    sync.WaitGroup
	stop    context.CancelFunc
}

func startCrew(t *testing.T, size int) *crew {
	f := &crew{t: t, memory: leasetest.NewMemory("orders", max(64, size+size/4))}
	store := distant{f.memory}
	f.crashed = fixture.Hold(t, f.memory, 1, time.Now(), 15*time.Second)
	for range size {
		f.agents = append(f.agents, fixture.Start(t, fixture.Config(store)))
	}
	ctx, stop := context.WithCancel(t.Context())
	f.stop = stop
	f.runs.Go(func() {
		fixture.Wait(rand.N(time.Minute))
		for warm := leasepool.Open(store, "orders"); ctx.Err() == nil; _ = protocol.Pause(ctx, time.Minute) {
			pool := warm // this run is in the same process as an earlier run, or in a new process
			if rand.IntN(2) == 0 {
				pool = leasepool.Open(store, "orders")
			}
			f.runs.Go(func() {
				run, cancel := context.WithTimeout(ctx, 290*time.Second)
				defer cancel()
				_, _ = pool.Reap(run) // in an outage, the function may be stopped by its time-out
			})
		}
	})
	return f
}

// end stops the reaper and returns how many live processes have lost their leases.
func (f *crew) end() (lost int) {
	f.stop()
	f.runs.Wait()
	for _, a := range f.agents {
		if errors.Is(a.Err(), lease.ErrLost) {
			lost++
		}
	}
	return lost
}

func silence(t *testing.T) {
	old := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(old) })
}

// An outage that also affects claimants and the reaper does not cost a live process its
// lease, however long the outage lasts and however many processes there are. Leases of
// processes that have crashed are still freed.
func TestNoOutageIsReaped(t *testing.T) {
	silence(t)
	for _, size := range []int{1, 3, 8, 9, 40, 1000} {
		for _, outage := range []time.Duration{20 * time.Second, 75 * time.Second, 80 * time.Second, 2 * time.Minute, 7 * time.Minute, time.Hour} {
			if size == 1000 && (testing.Short() || outage != 80*time.Second) || size > 9 && outage == time.Hour {
				continue // too slow: many processes that retry for a long time would take minutes
			}
			t.Run(fmt.Sprintf("%d for %v", size, outage), func(t *testing.T) {
				for range max(1, 9/size) {
					fixture.Virtual(t, func(t *testing.T) {
						f := startCrew(t, size)
						fixture.Wait(20*time.Second + rand.N(time.Minute))
						f.memory.SetOutage(errors.New("away"))
						fixture.Wait(outage)
						f.memory.SetOutage(nil)
						fixture.Wait(7 * time.Minute)
						if lost := f.end(); lost > 0 {
							t.Errorf("%d of %d live processes lost their lease, want none", lost, size)
						}
						if l, err := f.memory.Get(t.Context(), "orders", 1); err != nil || l.Holder == f.crashed.Holder {
							t.Errorf("a crashed process still has its lease: %+v, %v", l, err)
						}
					})
				}
			})
		}
	}
}

// If an outage is interrupted for a moment in which a reaper scans but no holder renews,
// it looks like two outages to the reaper. Even in this case, the reaper frees no live
// holder's lease.
func TestReapOutageWithABreak(t *testing.T) {
	silence(t)
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 20)
		for n := range 3 {
			fixture.Hold(t, s, n, time.Now(), 15*time.Second)
		}
		look := func() leasepool.ReapReport {
			r, err := leasepool.Open(s, "orders").Reap(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		fixture.Wait(2 * time.Minute)
		if r := look(); len(r.Due) != 3 || len(r.Freed) != 0 {
			t.Errorf("in the break: %+v, want three due, none freed", r)
		}
		fixture.Wait(time.Minute)
		if r := look(); len(r.Due) != 3 || len(r.Freed) != 0 || r.NextLook.IsZero() {
			t.Errorf("after the outage: %+v, want three due, none freed, and another scan", r)
		}
		for n := range 2 { // the store answers again
			l, err := s.Get(t.Context(), "orders", n)
			if err != nil {
				t.Fatal(err)
			}
			if res, err := s.Write(t.Context(), renew(*l, time.Now())); err != nil || !res.Applied {
				t.Fatal(res, err)
			}
		}
		fixture.Wait(time.Minute)
		if r := look(); len(r.Freed) != 1 || r.Freed[0] != 2 {
			t.Errorf("a minute later: %+v, want node ID 2 freed alone", r)
		}
	})
}
