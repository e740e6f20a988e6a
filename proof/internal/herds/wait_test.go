package herds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// metered is a store whose requests take 5 ms each. It counts requests and their cost. If
// note is set, metered answers reads of the note with it, and not with the store's note.
type metered struct {
	*leasetest.Memory
	note func(ctx context.Context, pool string) (protocol.Note, error)

	mu          sync.Mutex
	spent       spent
	released    map[int]time.Time
	deniedWrite error
}

// spent is how many requests of each kind were sent, and their cost.
type spent struct {
	polls, looks    int
	claims, refused int
	told, offered   int // writes of the note, including refused writes
	units           float64
	served          []time.Duration // from each release to the next claim
}

// spending returns the cost since the last reset.
func (s *metered) spending() spent {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.spent
	c.served = slices.Clone(c.served)
	return c
}

func meter(t *testing.T, size int) *metered {
	t.Helper()
	s := &metered{Memory: leasetest.NewMemory("", 0), released: map[int]time.Time{}}
	occupied(t, s.Memory, size, 0, 0)
	return s
}

// count waits for as long as a request takes, and counts it.
func (s *metered) count(with func()) {
	time.Sleep(5 * time.Millisecond) // virtual
	s.mu.Lock()
	defer s.mu.Unlock()
	with()
}

func (s *metered) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = spent{}
}

func (s *metered) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	s.count(func() { s.spent.units++ })
	return s.Memory.PoolItem(ctx, pool)
}

func (s *metered) Get(ctx context.Context, pool string, node int) (*protocol.Lease, error) {
	s.count(func() { s.spent.units++; s.spent.looks++ })
	return s.Memory.Get(ctx, pool, node)
}

func (s *metered) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	s.count(func() { s.spent.units += 19 })
	return s.Memory.Group(ctx, pool, n)
}

func (s *metered) EventualGroup(ctx context.Context, pool string, n int) (protocol.Group, error) {
	s.count(func() { s.spent.units += 9.5 }) // 256 leases of 300 bytes
	return s.Memory.Group(ctx, pool, n)
}

func (s *metered) EventualPart(ctx context.Context, pool string, n int, part protocol.Part) (protocol.Group, error) {
	s.count(func() { s.spent.units += 1.5 })
	g, err := s.Memory.Group(ctx, pool, n)
	return fixture.Part(g, part), err
}

func (s *metered) Write(ctx context.Context, w protocol.Write) (res protocol.Result, err error) {
	s.count(func() {
		res, err = s.Memory.Write(ctx, w)
		switch at, known := s.released[w.Item().NodeID]; w.(type) {
		case protocol.Claim:
			s.spent.claims++
			if !res.Applied {
				s.spent.refused++
			} else if known {
				s.spent.served = append(s.spent.served, time.Since(at))
				delete(s.released, w.Item().NodeID)
			}
		case protocol.Release:
			s.released[w.Item().NodeID] = time.Now()
		}
	})
	return res, err
}

func (s *metered) Note(ctx context.Context, pool string) (protocol.Note, error) {
	s.count(func() { s.spent.units += .5; s.spent.polls++ })
	if s.note != nil {
		return s.note(ctx, pool)
	}
	return s.Memory.Note(ctx, pool)
}

func (s *metered) WriteNote(ctx context.Context, w protocol.NoteWrite) (n protocol.Note, applied bool, err error) {
	s.count(func() {
		switch w.(type) {
		case protocol.Await:
			s.spent.told++
		case protocol.Leave:
			s.spent.offered++
		}
		if err = s.deniedWrite; err == nil {
			n, applied, err = s.Memory.WriteNote(ctx, w)
		}
	})
	return n, applied, err
}

// fill makes real agents hold some of the node IDs. All other node IDs are held with
// leases that last for hours.
func (s *metered) fill(t *testing.T, size, agents int) (all []*lease.Agent) {
	t.Helper()
	for range agents {
		all = append(all, fixture.Start(t, fixture.Config(s)))
	}
	for n := range size {
		if fixture.Item(t, s.Memory, n).Holder == "" {
			fixture.Hold(t, s.Memory, n, time.Now(), 20*time.Hour)
		}
	}
	// Measure the pool, as the poolmetric function does each minute.
	m := protocol.Measured{Held: size, At: time.Now(), Valid: 30 * time.Minute}
	if res, err := s.WritePool(t.Context(), protocol.Measure{Pool: "orders", Measured: m}); err != nil || !res.Applied {
		t.Fatal(res, err)
	}
	return all
}

// waiters makes n claimants begin to wait within a second. When a claimant gets a node
// ID, its agent is sent to got.
func waiters(t *testing.T, s lease.Store, n int) (got chan *lease.Agent) {
	t.Helper()
	got = make(chan *lease.Agent, n)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			time.Sleep(time.Duration(i) * time.Second / time.Duration(n)) // virtual
			cfg := fixture.Config(s)
			cfg.Wait = 2 * time.Hour
			if a, err := lease.Start(ctx, cfg); err == nil {
				got <- a
			} else if ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
		close(got)
		for a := range got {
			_ = a.Close()
		}
	})
	return got
}

// A hundred processes wait in a full pool of 1,024 node IDs. At the 99th percentile, a
// released node ID is claimed within 2 s. Each process that gets a node ID needs at most
// two writes. While nothing is released, waiting costs about one read unit a second.
func TestWaitingIsCheap(t *testing.T) {
	const size, n = 1024, 100
	for name, every := range map[string]time.Duration{"one by one": time.Second / 5, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := meter(t, size)
				holders := s.fill(t, size, n)
				s.reset()
				got := waiters(t, s, n)
				fixture.Wait(5 * time.Minute)
				began, idle := s.spending().claims+s.spending().told, s.spending().units
				s.reset()
				fixture.Wait(10 * time.Minute)
				polls, units := float64(s.spending().polls)/n/600, s.spending().units/n/600
				t.Logf("waiting: %.1f read units in the first 5 min, then %.2f a second, of which %.2f for polls; %.2f writes in all", idle/n, units, polls/2, float64(began+s.spending().claims+s.spending().told)/n)
				if polls/2 > 1 || units > 1.1 {
					t.Errorf("got %.2f read units a second for a process that waits, %.2f for polls, want at most 1.1 and 1", units, polls/2)
				}
				writes := began + s.spending().claims + s.spending().told
				s.reset()
				for _, a := range holders {
					go a.Close()
					time.Sleep(every) // virtual
				}
				fixture.Wait(2 * time.Minute) // the last claimant may find its node ID only in a page, and it reads a page only every 90 s
				if len(got) != n {
					t.Fatalf("got %d of %d node IDs that were released", len(got), n)
				}
				served := s.spending().served
				slices.Sort(served)
				p99 := served[n*99/100-1]
				writes += s.spending().claims + s.spending().told
				t.Logf("served: p50 %v, p99 %v; %.2f writes each (%d claims refused), %.2f read units; the releases wrote %.2f", served[n/2], p99, float64(writes)/n, s.spending().refused, s.spending().units/n, float64(s.spending().offered)/n)
				if p99 > 2*time.Second {
					t.Errorf("served after %v at p99, want 2s", p99)
				}
				if writes > 2*n {
					t.Errorf("%d writes of %d processes that were served, want at most two each", writes, n)
				}
				if s.spending().offered > n {
					t.Errorf("%d releases wrote the note %d times", n, s.spending().offered)
				}
			})
		})
	}
}

// A release does not write the note while nobody waits: before the first claimant begins
// to wait, after the last claimant has stopped waiting, or if claimants wait only in
// another pool. It does not write the note either if the note contains a time that only a
// wrong clock can have written. The first waiting claimant corrects that time.
func TestReleaseWithNobodyWaiting(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := meter(t, 2)
		release := func(what string, want int) {
			t.Helper()
			s.reset()
			a, err := lease.Start(t.Context(), fixture.Config(s))
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil || s.spending().offered != want {
				t.Errorf("%s: %v, %d writes of the note, want %d", what, err, s.spending().offered, want)
			}
		}
		say := func(pool string, until time.Time) {
			t.Helper()
			n, _ := s.Memory.Note(t.Context(), pool)
			if _, applied, err := s.Memory.WriteNote(t.Context(), protocol.Await{Pool: pool, Seen: n.Until, Until: until}); err != nil || !applied {
				t.Fatal(applied, err)
			}
		}
		release("nobody ever waited", 0)
		say("orders2", time.Now().Add(time.Minute))
		release("somebody waits for another pool", 0)
		say("orders", time.Now().Add(time.Minute))
		release("somebody waits", 1)
		fixture.Wait(time.Minute)
		release("nobody waits any more", 0)
		say("orders", time.Now().Add(5*time.Hour))
		release("a time of a wrong clock", 0)

		a, b := fixture.Start(t, fixture.Config(s)), fixture.Start(t, fixture.Config(s))
		got := waiters(t, s, 1)
		fixture.Wait(10 * time.Second)
		s.reset()
		if err := errors.Join(a.Close(), b.Close()); err != nil || s.spending().offered != 2 {
			t.Errorf("%v, %d writes of the note, want 2: the time was corrected", err, s.spending().offered)
		}
		fixture.Wait(2 * time.Second)
		if len(got) != 1 {
			t.Error("nobody took the node IDs")
		}
	})
}

// A claimant that begins to wait finds node IDs that were released between its search and
// its first read of the note, although these releases could not know that it was waiting.
func TestReleaseBeforeTheFirstPoll(t *testing.T) {
	for _, size := range []int{1024, 4096} {
		for range 8 { // repeated, since the claimant would sometimes find the node ID by chance
			fixture.Virtual(t, func(t *testing.T) {
				s := meter(t, size)
				holder := s.fill(t, size, 1)[0]
				got := waiters(t, s, 1)
				fixture.Wait(300 * time.Millisecond)
				if err := holder.Close(); err != nil || s.spending().offered > 0 {
					t.Fatalf("%v, %d writes of the note: it begins to wait too early", err, s.spending().offered)
				}
				fixture.Wait(1500 * time.Millisecond)
				if len(got) != 1 {
					t.Errorf("nobody took the node ID of %d within 1.5 s", size)
				}
			})
		}
	}
}

// Even if the first answer to a release is lost, the release leaves its node ID in the
// note.
func TestReleaseIsOfferedAfterALostAnswer(t *testing.T) {
	for range 4 { // repeated, since a page would sometimes show the node ID by chance
		fixture.Virtual(t, func(t *testing.T) {
			s, lost := fixture.NewNetwork(1024), false
			holder := fixture.Start(t, fixture.Config(s))
			for n := range 1024 {
				if n != holder.NodeID() {
					fixture.Hold(t, s, n, time.Now(), 20*time.Hour)
				}
			}
			got := waiters(t, s, 1)
			fixture.Wait(5 * time.Minute)
			s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
				if _, release := w.(protocol.Release); release && !lost {
					lost = true
					return fixture.Lose(ctx, do)
				}
				return do()
			})
			if err := holder.Close(); err != nil || !lost {
				t.Fatal(err, lost)
			}
			fixture.Wait(1500 * time.Millisecond)
			if len(got) != 1 {
				t.Error("nobody took the node ID within 1.5 s")
			}
		})
	}
}

// If a node ID is released because a copy of the process is running, the node ID cannot
// be claimed until its reservation has passed. So it is not left in the note.
func TestCopyLeavesNothing(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := meter(t, 1)
		if _, _, err := s.Memory.WriteNote(t.Context(), protocol.Await{Pool: "orders", Until: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		a := fixture.Start(t, fixture.Config(s))
		l := fixture.Item(t, s.Memory, 0)
		copied := protocol.Renew{
			Key: protocol.Key{Pool: "orders"}, Session: l.Holder, Version: l.Version, Renewal: 5, Confirmed: l.ReservedUntil,
			ExpiresAt: l.ExpiresAt.Add(time.Second), ReservedUntil: l.ReservedUntil.Add(time.Second),
		}
		if res, err := s.Memory.Write(t.Context(), copied); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		if err := a.Close(); err != nil || s.spending().offered > 0 || fixture.Item(t, s.Memory, 0).Holder != "" {
			t.Errorf("%v, %d writes of the note, left %+v", err, s.spending().offered, fixture.Item(t, s.Memory, 0))
		}
	})
}

// Problems with the note do not make Close fail or wait for long.
func TestNoteDisturbsNoRelease(t *testing.T) {
	for what, note := range map[string]func(ctx context.Context, pool string) (protocol.Note, error){
		"denied": func(context.Context, string) (protocol.Note, error) { return protocol.Note{}, lease.ErrAccess },
		"corrupt": func(context.Context, string) (protocol.Note, error) {
			return protocol.Note{}, &lease.CorruptError{Err: errors.New("x")}
		},
		"silent": func(ctx context.Context, _ string) (protocol.Note, error) {
			<-ctx.Done()
			return protocol.Note{}, ctx.Err()
		},
		"not to be written": func(context.Context, string) (protocol.Note, error) {
			return protocol.Note{Pool: "orders", Until: time.Now().Add(time.Minute)}, nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := meter(t, 1)
				s.note, s.deniedWrite = note, lease.ErrAccess
				var ev fixture.Events
				cfg := fixture.Config(s)
				cfg.OnEvent = ev.Add
				a := fixture.Start(t, cfg)
				began := time.Now()
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("Close took %v", took)
				}
				if l := fixture.Item(t, s.Memory, 0); l.Holder != "" {
					t.Errorf("left %+v", l)
				}
				if n := len(ev.Of(lease.EventNotReleased, lease.EventWarning)); n > 0 {
					t.Errorf("%d events of trouble: nobody can do anything about it", n)
				}
			})
		})
	}
}

// Without the note, claimants wait by reading groups every second.
func TestWaitingWithoutANote(t *testing.T) {
	for what, spoil := range map[string]func(s *metered){
		"denied": func(s *metered) {
			s.note = func(context.Context, string) (protocol.Note, error) { return protocol.Note{}, lease.ErrAccess }
		},
		"corrupt": func(s *metered) {
			s.note = func(context.Context, string) (protocol.Note, error) {
				return protocol.Note{}, &lease.CorruptError{Err: errors.New("x")}
			}
		},
		"not to be written": func(s *metered) { s.deniedWrite = lease.ErrAccess },
	} {
		t.Run(what, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := meter(t, 1024)
				holder := s.fill(t, 1024, 1)[0]
				spoil(s)
				got := waiters(t, s, 1)
				fixture.Wait(time.Minute)
				if err := holder.Close(); err != nil {
					t.Fatal(err)
				}
				fixture.Wait(2 * time.Second)
				if len(got) != 1 {
					t.Errorf("nobody took the node ID within 2 s")
				}
			})
		})
	}
}

// Forged offers in the note cost a waiting claimant at most two reads a second. They cost
// no writes, since the claimant reads a node ID before it claims that node ID. The
// claimant still finds a node ID that is free.
func TestForgedOffers(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := meter(t, 1024)
		s.fill(t, 1024, 0)
		i := 0
		s.note = func(_ context.Context, pool string) (protocol.Note, error) {
			n := protocol.Note{Pool: pool, Until: time.Now().Add(time.Minute)}
			for range protocol.NotePlaces {
				i++
				n.Offers = append(n.Offers, protocol.Offer{NodeID: i * 37 % 2048, MS: time.Now().UnixMilli()}) // half of them do not exist
			}
			return n, nil
		}
		got := waiters(t, s, 1)
		fixture.Wait(10 * time.Second)
		s.reset()
		fixture.Wait(10 * time.Minute)
		t.Logf("%d looks, %d claims, %.1f read units a second", s.spending().looks, s.spending().claims, s.spending().units/600)
		if s.spending().looks > 1220 || s.spending().claims > 0 || s.spending().units > 4*600 {
			t.Errorf("got %d looks, %d claims and %.0f read units in 600 s, want at most 1220, 0 and 2400", s.spending().looks, s.spending().claims, s.spending().units)
		}
		l := fixture.Item(t, s.Memory, 99)
		if _, err := s.Memory.Write(t.Context(), protocol.Release{Key: protocol.Key{Pool: "orders", NodeID: 99}, Session: l.Holder, Version: l.Version, ReservedUntil: time.Now()}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(2 * time.Minute)
		if len(got) != 1 {
			t.Error("it did not find a free node ID in two minutes")
		}
	})
}

// If nobody renews a node ID, because its holder died or an operator freed the lease, the
// node ID is claimed as soon as possible, although nobody left it in the note.
func TestWakesByTime(t *testing.T) {
	for _, how := range []string{"died", "freed"} {
		t.Run(how, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				const size = 1024
				s := meter(t, size)
				fixture.Hold(t, s.Memory, 77, time.Now(), 4*time.Minute)
				s.fill(t, size, 0)
				if how == "freed" {
					if _, err := s.Memory.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: 77}, Version: 1}); err != nil {
						t.Fatal(err)
					}
				}
				end := fixture.Item(t, s.Memory, 77).ReservedUntil
				got := waiters(t, s, 1)
				fixture.Wait(time.Until(end) - 3*time.Second)
				if len(got) > 0 {
					t.Fatal("the node ID still rests")
				}
				fixture.Wait(6 * time.Second)
				if len(got) != 1 {
					t.Errorf("nobody has node ID 77 three seconds after its time")
				}
			})
		})
	}
}

// If the note's partition throttles requests, that is not treated as an outage. After an
// outage, a claimant would leave expired leases alone for a while.
func TestThrottledNoteIsNoOutage(t *testing.T) {
	for range 60 { // repeated, since the claimant may by chance send another request meanwhile
		fixture.Virtual(t, func(t *testing.T) {
			s := meter(t, 1024)
			fixture.Hold(t, s.Memory, 77, time.Now(), 4*time.Minute)
			s.fill(t, 1024, 0)
			end := fixture.Item(t, s.Memory, 77).ReservedUntil
			s.note = func(ctx context.Context, pool string) (protocol.Note, error) {
				if left := time.Until(end); left < 20*time.Second && left > 2*time.Second {
					return protocol.Note{}, &types.ProvisionedThroughputExceededException{}
				}
				return s.Memory.Note(ctx, pool)
			}
			got := waiters(t, s, 1)
			fixture.Wait(time.Until(end) - 20*time.Second)
			s.reset()
			fixture.Wait(18 * time.Second)
			if s.spending().polls < 1 || s.spending().polls > 8 {
				t.Errorf("%d polls in 18 s of throttles, want a few", s.spending().polls)
			}
			fixture.Wait(4 * time.Second)
			if len(got) != 1 || s.spending().refused > 0 {
				t.Errorf("nobody has node ID 77 two seconds after its time, or %d claims were refused", s.spending().refused)
			}
		})
	}
}

// An on-demand agent waits in the same way, and leaves its node ID in the note for other
// claimants.
func TestOnDemandWaits(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := meter(t, 1)
		use := func() *lease.OnDemand {
			cfg := fixture.Config(s)
			cfg.Wait = time.Hour
			o, err := lease.NewOnDemand(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = o.Close() })
			return o
		}
		first, second := use(), use()
		if err := first.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- second.Refresh(t.Context()) }()
		fixture.Wait(time.Minute)
		if err := first.Close(); err != nil || s.spending().offered != 1 {
			t.Errorf("%v, %d writes of the note, want 1", err, s.spending().offered)
		}
		fixture.Wait(2 * time.Second)
		if len(done) != 1 || <-done != nil || second.NodeID() != 0 {
			t.Errorf("the second one has no node ID: %v", second.Err())
		}
	})
}

// A waiting claimant that may not widen a narrow pool gets a node ID when another process
// widens the pool.
func TestWaitForAWiderPool(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(0)
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1024, Narrow: true}); err != nil {
			t.Fatal(err)
		}
		p, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		for n := range p.Limit() {
			fixture.Hold(t, s, n, time.Now(), time.Minute)
		}
		s.Denied(true)
		got := waiters(t, s, 1)
		fixture.Wait(10 * time.Second)
		s.Denied(false)
		if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: p.OpenGroups, To: 4}); err != nil {
			t.Fatal(err)
		}
		if _, err := leasepool.Open(s, "orders").Widen(t.Context()); err != nil {
			t.Fatal(err)
		}
		wide, err := s.PoolItem(t.Context(), "orders")
		if err != nil || len(wide.Eras) < 2 {
			t.Fatalf("%+v, %v", wide, err)
		}
		fixture.Wait(time.Until(wide.Eras[len(wide.Eras)-1].From) + 30*time.Second)
		if len(got) != 1 {
			t.Errorf("nobody has a node ID of the wider pool: %v", fmt.Sprint(wide.Eras))
		}
	})
}
