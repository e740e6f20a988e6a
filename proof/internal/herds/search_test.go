package herds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// These tests measure what a start costs, in conditional writes and in Query pages,
// depending on how full the pool is.

// occupied creates a pool of size node IDs. The node IDs below low are excluded, and all
// groups are open. A random part of the node IDs is held.
func occupied(t *testing.T, s *leasetest.Memory, size, low int, part float64) {
	t.Helper()
	open := (size + protocol.GroupSize - 1) / protocol.GroupSize
	if _, err := s.WritePool(t.Context(), protocol.CreatePool{Pool: "orders", Size: size, OpenGroups: open, ExcludeBelow: low, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for n := low; n < size; n++ {
		if _, err := s.Write(t.Context(), protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: n}, Floor: time.Now().Add(-time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if rand.Float64() < part {
			fixture.Hold(t, s, n, time.Now(), time.Hour)
		}
	}
}

// starts makes tasks start and end one after the other, and returns the mean cost of a
// start.
func starts(t *testing.T, s lease.Store, tasks int) (writes, pages float64) {
	t.Helper()
	c := &fixture.Counter{Store: s}
	for range tasks {
		a, err := lease.Start(t.Context(), fixture.Config(c))
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Close()
	}
	return float64(c.Writes.Load())/float64(tasks) - 1, float64(c.Queries.Load()) / float64(tasks) // without the release
}

// A task that starts alone needs on average at most two conditional writes and two pages,
// however full the pool is, both in a small pool and in the largest pool.
func TestLoneTask(t *testing.T) {
	for _, size := range []int{1024, 65536} {
		for _, part := range []float64{0.5, 0.9, 0.99} {
			fixture.Virtual(t, func(t *testing.T) {
				s := leasetest.NewMemory("", 0)
				occupied(t, s, size, size/65536*8, part)
				writes, pages := starts(t, s, 500)
				t.Logf("%d node IDs, %.0f %% held: %.2f writes, %.2f pages", size, 100*part, writes, pages)
				if writes > 2 || pages > 2 {
					t.Errorf("%d node IDs, %.0f %% held: %.2f writes and %.2f pages a task", size, 100*part, writes, pages)
				}
			})
		}
	}
}

// The test does what TestLoneTask does, with a server that implements DynamoDB's
// protocol. It loads the largest pool into the server directly, since seeding that pool
// takes a minute by design.
func TestLoneTaskOnEmbedded(t *testing.T) {
	if testing.Short() {
		t.Skip("it loads 66,560 node IDs: run without -short")
	}
	db, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(operation, format string, args ...any) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(fmt.Sprintf(format, args...)))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		w := httptest.NewRecorder()
		if db.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", operation, w.Code, w.Body)
		}
	}
	call("CreateTable", `{"TableName":"leases","BillingMode":"PAY_PER_REQUEST",`+
		`"AttributeDefinitions":[{"AttributeName":"pool_group","AttributeType":"S"},{"AttributeName":"node_id","AttributeType":"N"}],`+
		`"KeySchema":[{"AttributeName":"pool_group","KeyType":"HASH"},{"AttributeName":"node_id","KeyType":"RANGE"}]}`)
	const item = `{"TableName":"leases","Item":{"pool_group":{"S":"%s"},"node_id":{"N":"%d"},%s}}`
	past, future := time.Now().Add(-time.Hour).UnixMilli(), time.Now().Add(time.Hour).UnixMilli()
	for size, pool := range map[int]string{1024: "small", 65536: "large"} {
		low := size / 65536 * 8
		call("PutItem", item, pool, -1, fmt.Sprintf(`"item_format":{"N":"2"},"revision":{"N":"1"},"floor":{"N":"0"},"pool_size":{"N":"%d"},"open_groups":{"N":"%d"},"exclude_below":{"N":"%d"}`, size, size/256, low))
		for n := low; n < size; n++ {
			rest := fmt.Sprintf(`"version":{"N":"0"},"reserved_until":{"N":"%d"}`, past)
			if rand.Float64() < 0.99 {
				rest = fmt.Sprintf(`"version":{"N":"1"},"renewal":{"N":"0"},"holder":{"S":"h"},"not_before":{"N":"%d"},"expires_at":{"N":"%d"},"reserved_until":{"N":"%d"}`, past, future, future)
			}
			call("PutItem", item, fmt.Sprintf("%s#%d", pool, n/256), n, rest)
		}
	}
	endpoint, err := db.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, pool := range []string{"small", "large"} {
		c := &fixture.Counter{Store: lease.NewDynamoDB(dynamotest.Client(t, endpoint), "leases")}
		const tasks = 60
		for range tasks {
			cfg := fixture.Config(c)
			cfg.Pool = pool
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Close()
		}
		writes, pages := float64(c.Writes.Load())/tasks-1, float64(c.Queries.Load())/tasks
		t.Logf("%s: %.2f writes, %.2f pages", pool, writes, pages)
		if writes > 2 || pages > 2 {
			t.Errorf("%s: %.2f writes and %.2f pages a task", pool, writes, pages)
		}
	}
}

// Tasks that start one after the other fill the largest pool from its first group on.
// They double the number of open groups when the last open group is more than 75 % full.
// Each task needs at most two writes and two pages.
func TestGroupsFillUp(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		const tasks = 2000
		s := leasetest.NewMemory("", 0)
		occupied(t, s, 65536, 8, 0)
		if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 256, To: 1}); err != nil {
			t.Fatal(err)
		}
		c := &fixture.Counter{Store: s}
		highest := 0
		for range tasks {
			cfg := fixture.Config(c)
			cfg.TTL = 24 * time.Hour
			highest = max(highest, fixture.Start(t, cfg).NodeID())
		}
		p, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		writes, pages := float64(c.Writes.Load())/tasks, float64(c.Queries.Load())/tasks
		t.Logf("%d tasks in %d groups, highest number %d: %.2f writes, %.2f pages", tasks, p.OpenGroups, highest, writes, pages)
		if least := tasks / protocol.GroupSize; p.OpenGroups < least || p.OpenGroups > 3*least {
			t.Errorf("%d tasks are in %d groups", tasks, p.OpenGroups)
		}
		if highest >= p.OpenGroups*protocol.GroupSize {
			t.Errorf("number %d with %d groups open", highest, p.OpenGroups)
		}
		if writes > 2 || pages > 2 {
			t.Errorf("%.2f writes and %.2f pages a task", writes, pages)
		}
		// Stats reads only the open groups.
		c.Queries.Store(0)
		stats, err := leasepool.Open(c, "orders").Stats(t.Context())
		if err != nil || stats.Held != tasks || stats.Capacity != 65528 || c.Queries.Load() != int64(p.OpenGroups) {
			t.Errorf("%+v, %v, %d pages", stats, err, c.Queries.Load())
		}
		c.Queries.Store(0)
		if report, err := leasepool.Open(c, "orders").Reap(t.Context()); err != nil || report.Held != tasks || c.Queries.Load() != int64(p.OpenGroups) {
			t.Errorf("%+v, %v, %d pages", report, err, c.Queries.Load())
		}
	})
}

// A herd much larger than the open groups finds room after a few rounds.
func TestHerdOpensGroups(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		const tasks = 1500
		s := leasetest.NewMemory("", 0)
		occupied(t, s, 65536, 8, 0)
		if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 256, To: 1}); err != nil {
			t.Fatal(err)
		}
		c := &fixture.Counter{Store: s}
		var failed atomic.Int64
		fixture.Together(tasks, func(int) {
			cfg := fixture.Config(c)
			cfg.TTL = 24 * time.Hour
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				failed.Add(1)
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = a.Close() })
		})
		p, _ := s.PoolItem(t.Context(), "orders")
		t.Logf("%d groups open: %.2f writes and %.2f pages a task", p.OpenGroups, float64(c.Writes.Load())/tasks, float64(c.Queries.Load())/tasks)
		if p.OpenGroups > 64 {
			t.Errorf("%d groups are open", p.OpenGroups)
		}
	})
}

// In a large pool, a claimant finds out that no node ID is free without reading the whole
// pool, both at its start and while it waits.
func TestExhaustionIsCheap(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		occupied(t, s, 65536, 8, 1)
		c := &fixture.Counter{Store: s}
		var none *lease.ExhaustedError
		cfg := fixture.Config(c)
		cfg.TTL = 2 * time.Hour // other holders' reservations do not show that a clock is behind
		if _, err := lease.Start(t.Context(), cfg); !errors.As(err, &none) || none.NextFree.IsZero() || !strings.Contains(err.Error(), "240 groups") {
			t.Fatalf("got %v, want an ExhaustedError", err)
		}
		if pages := c.Queries.Load(); pages != 16 {
			t.Errorf("%d pages to find that nothing is free", pages)
		}
		c.Queries.Store(0)
		cfg.Wait = time.Minute
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Fatalf("got %v, want lease.ErrPoolExhausted", err)
		}
		if pages := c.Queries.Load(); pages > 16+4*125 {
			t.Errorf("%d pages in a minute", pages)
		}
	})
	// A small pool is searched as a whole, so that its last free node ID is found at once.
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		occupied(t, s, 4096, 0, 1)
		last := fixture.Item(t, s, 1234)
		if _, err := s.Write(t.Context(), protocol.Release{Key: protocol.Key{Pool: "orders", NodeID: 1234}, Session: last.Holder, Version: last.Version, ReservedUntil: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if a := fixture.Start(t, fixture.Config(s)); a.NodeID() != 1234 {
			t.Error(a.NodeID())
		}
	})
}

// If all node IDs of the first groups are excluded, the first guess is above them.
func TestReservedBeyondTheOpenGroups(t *testing.T) {
	for _, reserved := range []int{255, 256, 300, 512, 1500} {
		fixture.Virtual(t, func(t *testing.T) {
			s := leasetest.NewMemory("", 0)
			if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1537, ExcludeBelow: reserved}); err != nil {
				t.Fatal(err)
			}
			for range 30 {
				if a := fixture.Start(t, fixture.Config(s)); a.NodeID() < reserved || a.NodeID() >= 1537 {
					t.Fatalf("node %d with %d reserved", a.NodeID(), reserved)
				}
			}
		})
	}
}

// aged is a table whose eventually consistent reads always return the same page.
type aged struct {
	*leasetest.Memory
	page   protocol.Group
	strong int
	claims []int // the node IDs that were claimed
}

func (s *aged) EventualGroup(context.Context, string, int) (protocol.Group, error) {
	return protocol.Group{Leases: slices.Clone(s.page.Leases)}, nil
}

func (s *aged) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	s.strong++
	return s.Memory.Group(ctx, pool, n)
}

func (s *aged) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if c, ok := w.(protocol.Claim); ok {
		s.claims = append(s.claims, c.NodeID)
	}
	return s.Memory.Write(ctx, w)
}

// photograph stores the current page, which eventually consistent reads return from then
// on.
func (s *aged) photograph(t *testing.T) {
	t.Helper()
	var err error
	if s.page, err = s.Memory.Group(t.Context(), "orders", 0); err != nil {
		t.Fatal(err)
	}
}

// An agent that starts after another agent has released its node ID finds that node ID,
// however old the eventually consistent pages are. The reason is that a start ends with
// an ExhaustedError only after a strongly consistent search.
func TestOldPageExhaustsNoPool(t *testing.T) {
	for _, wait := range []time.Duration{0, 20 * time.Second} {
		fixture.Virtual(t, func(t *testing.T) {
			s := &aged{Memory: leasetest.NewMemory("orders", 64)}
			var all []*lease.Agent
			for range 64 {
				all = append(all, fixture.Start(t, fixture.Config(s.Memory)))
			}
			s.photograph(t)
			cfg := fixture.Config(s)
			cfg.Wait = wait
			var exhausted *lease.ExhaustedError
			if _, err := lease.Start(t.Context(), cfg); !errors.As(err, &exhausted) {
				t.Fatalf("got %v from a full pool, want an ExhaustedError", err)
			}
			if s.strong != 1 {
				t.Errorf("got %d strongly consistent pages, want 1: the last one", s.strong)
			}
			free := all[17].NodeID()
			if err := all[17].Close(); err != nil {
				t.Fatal(err)
			}
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				t.Fatalf("got %v with a wait of %v and pages of before the release of %d, want that node ID", err, wait, free)
			}
			if a.NodeID() != free {
				t.Errorf("got node ID %d, want %d", a.NodeID(), free)
			}
			_ = a.Close()
		})
	}
}

// Because of an old page, a claimant tries each node ID at most once, since the refusal
// of a claim is newer than the page.
func TestOldPageIsNotBelievedTwice(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &aged{Memory: leasetest.NewMemory("orders", 64)}
		s.photograph(t) // all node IDs are free
		for range 63 {
			fixture.Start(t, fixture.Config(s.Memory))
		}
		a := fixture.Start(t, fixture.Config(s))
		tries := map[int]int{}
		for _, n := range s.claims {
			if tries[n]++; tries[n] > 1 {
				t.Errorf("got %d claims of node ID %d, want 1", tries[n], n)
			}
		}
		t.Logf("node ID %d after %d claims", a.NodeID(), len(s.claims))
	})
}

// jammed is a store that answers only the first read of the pool's item.
type jammed struct {
	*fixture.Network
	reads int
}

func (s *jammed) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if s.reads++; s.reads > 1 {
		return protocol.PoolItem{}, errors.New("throttled")
	}
	return s.Network.PoolItem(ctx, pool)
}

// A claimant opens groups, and finds groups that other agents opened, even while reads of
// the pool's item are throttled.
func TestOpeningNeedsNoRead(t *testing.T) {
	for name, first := range map[string]bool{"it is the first": true, "somebody was first": false} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := &jammed{Network: &fixture.Network{Memory: leasetest.NewMemory("", 0)}}
				occupied(t, s.Memory, 2048, 0, 0)
				if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 8, To: 1}); err != nil {
					t.Fatal(err)
				}
				for n := range protocol.GroupSize {
					fixture.Hold(t, s, n, time.Now(), time.Hour)
				}
				s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
					if !first && w.Item().NodeID < protocol.GroupSize { // the claimant's guess
						first = true
						if _, err := s.Memory.WritePool(ctx, protocol.OpenGroups{Pool: "orders", From: 1, To: 4}); err != nil {
							t.Error(err)
						}
					}
					return do()
				})
				a, err := lease.Start(t.Context(), fixture.Config(s))
				if err != nil {
					t.Fatal(err)
				}
				p, err := s.Network.PoolItem(t.Context(), "orders")
				if err != nil || p.OpenGroups < 2 || a.NodeID() < protocol.GroupSize {
					t.Errorf("got node ID %d with %d groups open, %v", a.NodeID(), p.OpenGroups, err)
				}
				_ = a.Close()
			})
		})
	}
}

// inParts is a store that can read parts of groups.
type inParts struct {
	*leasetest.Memory
	parts, pages, strong atomic.Int64
}

func (s *inParts) EventualPart(ctx context.Context, pool string, n int, part protocol.Part) (protocol.Group, error) {
	s.parts.Add(1)
	g, err := s.Memory.Group(ctx, pool, n)
	return fixture.Part(g, part), err
}

func (s *inParts) EventualGroup(ctx context.Context, pool string, n int) (protocol.Group, error) {
	s.pages.Add(1)
	return s.Memory.Group(ctx, pool, n)
}

func (s *inParts) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	s.strong.Add(1)
	return s.Memory.Group(ctx, pool, n)
}

// A start in a pool that is half full reads a part of a group, and no whole page. In a
// full pool, reading a small part and a large one costs two additional reads: only whole
// pages show that no node ID is free, or find the last free node ID.
func TestPartsOfGroups(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		occupied(t, s.Memory, 1024, 0, .5)
		for range 200 {
			a, err := lease.Start(t.Context(), fixture.Config(s))
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Close()
		}
		if parts, pages := s.parts.Load(), s.pages.Load()+s.strong.Load(); parts == 0 || pages > 0 {
			t.Errorf("got %d parts and %d pages for 200 starts, want parts alone", parts, pages)
		}
	})
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		occupied(t, s.Memory, 1024, 0, 1)
		var none *lease.ExhaustedError
		cfg := fixture.Config(s)
		cfg.TTL = 2 * time.Hour // other holders' reservations do not show that a clock is behind
		if _, err := lease.Start(t.Context(), cfg); !errors.As(err, &none) || none.Size != 1024 || strings.Contains(err.Error(), "groups") {
			t.Errorf("got %v, want an ExhaustedError of all 1,024", err)
		}
		if parts, pages, strong := s.parts.Load(), s.pages.Load(), s.strong.Load(); parts != 2 || pages != 4 || strong != 4 {
			t.Errorf("got %d parts, %d pages and %d strong pages, want 2, 4 and 4", parts, pages, strong)
		}
		last := fixture.Item(t, s, 777)
		if _, err := s.Write(t.Context(), protocol.Release{Key: protocol.Key{Pool: "orders", NodeID: 777}, Session: last.Holder, Version: last.Version, ReservedUntil: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if a := fixture.Start(t, fixture.Config(s)); a.NodeID() != 777 {
			t.Errorf("got node ID %d, want 777, the only free one", a.NodeID())
		}
	})
}

// If a part of a group is full, a new claimant reads the whole group first. It does not
// begin to wait as the claimants in the note do.
func TestAFullPartIsNoFullGroup(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		occupied(t, s.Memory, protocol.GroupSize, 0, 1)
		last := fixture.Item(t, s, 100)
		if _, err := s.Write(t.Context(), protocol.Release{Key: protocol.Key{Pool: "orders", NodeID: 100}, Session: last.Holder, Version: last.Version, ReservedUntil: time.Now()}); err != nil {
			t.Fatal(err)
		}
		n, err := s.Note(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if _, applied, err := s.WriteNote(t.Context(), protocol.Await{Pool: "orders", Seen: n.Until, Until: time.Now().Add(time.Minute)}); err != nil || !applied {
			t.Fatal(applied, err)
		}
		for range 20 {
			cfg := fixture.Config(s)
			cfg.Wait = time.Minute
			began := time.Now()
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("the start took %v, want no wait for a free node ID", took)
			}
			_ = a.Close()
			time.Sleep(time.Millisecond) // virtual: the last millisecond of its reservation passes
		}
	})
}

// If a part of a group in a narrow pool is crowded by chance, and the group has room, no
// groups are opened, since more groups would make all node IDs wider.
func TestAPartWithRoomOpensNoGroup(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 2048, Narrow: true}); err != nil {
			t.Fatal(err)
		}
		dice := rand.New(rand.NewPCG(1, 1))
		for n := range protocol.GroupSize {
			if dice.Float64() < .6 {
				fixture.Hold(t, s, n, time.Now(), time.Hour)
			}
		}
		for range 300 {
			a, err := lease.Start(t.Context(), fixture.Config(s))
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Close()
			time.Sleep(time.Millisecond) // virtual: the last millisecond of its reservation passes
		}
		if p, err := s.PoolItem(t.Context(), "orders"); err != nil || p.OpenGroups != 1 || s.parts.Load() < 100 {
			t.Errorf("got %d open groups after %d parts, %v, want one", p.OpenGroups, s.parts.Load(), err)
		}
	})
}

// When a fleet of 1,024 starts at once, a narrow pool reaches the width that it needs in
// two changes.
func TestNarrowPoolForAFleet(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 65536, Narrow: true}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 1024 {
			cfg := fixture.Config(s)
			cfg.Wait = 10 * time.Minute
			all.Go(func() { fixture.Start(t, cfg) })
		}
		all.Wait()
		fixture.Wait(5 * time.Minute)
		p, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if changes := len(p.Eras) - 1; changes > 2 || p.Bits() != 11 || p.Widening.State == protocol.WidenOpen {
			t.Errorf("got %d changes of the width, to %d bits for %d open groups, want two, to 11 bits", changes, p.Bits(), p.OpenGroups)
		}
	})
}
