package naps_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

var (
	environments = flag.Int("environments", 400, "environments in all")
	firstSeed    = flag.Uint64("seed", 1, "of the world")
)

// clock contains the two clocks of an environment. A clock may not show a freeze, and may step.
type clock struct {
	lease.Clock
	mono, wall atomic.Int64
}

func (c *clock) Wall() time.Time          { return c.Clock.Wall().Add(time.Duration(c.wall.Load())) }
func (c *clock) Monotonic() time.Duration { return c.Clock.Monotonic() - time.Duration(c.mono.Load()) }

// world contains the table, its faults, and the IDs that were made.
type world struct {
	t     *testing.T
	table *leasetest.Memory
	size  int
	wild  bool // some freezes show in no clock, and clocks step, so only S1 is judged

	mu       sync.Mutex
	made     map[snowflake.ID]int
	believer map[int]*environment
	first    []int // for each first use that got a node ID, the number of its requests
	counts   map[string]int
	late     sync.WaitGroup
}

func (w *world) count(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what] += n
}

// environment is one process and its connection to the table.
type environment struct {
	*leasetest.Memory
	w        *world
	number   int
	dice     *rand.Rand
	clock    *clock
	node     *lease.OnDemand
	requests atomic.Int64
}

// source is a random source for the goroutines of one environment.
type source struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

// Uint64 implements [rand.Source].
func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

// freeze freezes the environment for d.
func (e *environment) freeze(d time.Duration) {
	shown := e.dice.IntN(3) // 0: all clocks show the freeze; 1: only the wall clock; 2: in a wild world, no clock
	if shown > 0 {
		e.clock.mono.Add(int64(d))
	}
	if shown == 2 && e.w.wild {
		e.clock.wall.Add(-int64(d))
	}
	time.Sleep(d)
	if e.w.wild && e.dice.IntN(4) == 0 { // the clock jumps at the thaw
		e.clock.wall.Add(int64(time.Hour) - e.dice.Int64N(int64(2*time.Hour)))
	}
	e.w.count("freezes", 1)
}

// pause freezes the environment now and then, for seconds to hours.
func (e *environment) pause() {
	if e.dice.IntN(25) == 0 {
		e.freeze(time.Second << e.dice.IntN(13))
	}
}

// Write sends a write over a bad network.
func (e *environment) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	e.requests.Add(1)
	e.w.count(fmt.Sprintf("%T", w), 1)
	e.pause()
	if fate := e.dice.IntN(100); fate < 3 { // the write arrives after its sender has given up, or never
		e.later(time.Duration(e.dice.Int64N(int64(20*time.Minute))), w)
		<-ctx.Done()
		return protocol.Result{}, ctx.Err()
	} else if fate < 5 {
		return protocol.Result{}, errors.New("ThrottlingException: rate exceeded")
	} else if fate < 10 { // the write arrives now, and later again
		e.later(time.Duration(e.dice.Int64N(int64(time.Hour))), w)
	}
	time.Sleep(time.Millisecond + time.Duration(e.dice.Int64N(int64(20*time.Millisecond))))
	res, err := e.Memory.Write(context.Background(), w)
	e.pause()
	if e.dice.IntN(30) == 0 || ctx.Err() != nil {
		return protocol.Result{}, errors.New("connection reset by peer")
	}
	return res, err
}

func (e *environment) later(d time.Duration, w protocol.Write) {
	e.w.late.Go(func() {
		time.Sleep(d)
		_, _ = e.Memory.Write(context.Background(), w)
	})
}

// PoolItem counts the request.
func (e *environment) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	e.requests.Add(1)
	p, err := e.Memory.PoolItem(ctx, pool)
	if e.w.wild { // with the server's time, agents would refuse to work with a skewed clock
		p.ServerTime = time.Time{}
	}
	return p, err
}

// Group counts the request.
func (e *environment) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	e.requests.Add(1)
	return e.Memory.Group(ctx, pool, n)
}

// Check counts the request.
func (e *environment) Check(ctx context.Context) error {
	e.requests.Add(1)
	return e.Memory.Check(ctx)
}

// live invokes the environment until it dies, mostly without notice.
func (w *world) live(number int, seed uint64) {
	e := &environment{Memory: w.table, w: w, number: number, dice: rand.New(&source{pcg: rand.NewPCG(seed, uint64(number))}), clock: &clock{Clock: snowflake.SystemClock()}}
	cfg := fixture.Config(e)
	cfg.Clock = e.clock
	var err error
	if e.node, err = lease.NewOnDemand(cfg); err != nil {
		w.t.Error(err)
		return
	}
	var ids *snowflake.Generator
	used := false
	for range 1 + e.dice.IntN(60) {
		e.node.Witness(time.Now()) // in Lambda, this is the deadline that AWS sets, less a constant
		ctx, end := context.WithTimeout(context.Background(), 3*time.Second)
		if g, err := e.use(ctx, ids); err == nil {
			ids = g
			if !used {
				used = true
				w.mu.Lock()
				w.first = append(w.first, int(e.requests.Load()))
				w.mu.Unlock()
			}
		}
		end()
		if e.dice.IntN(5) > 0 {
			time.Sleep(time.Duration(e.dice.Int64N(int64(30 * time.Second))))
		} else {
			e.freeze(time.Duration(e.dice.Int64N(int64(20 * time.Minute))))
		}
	}
	if e.dice.IntN(4) == 0 { // SIGTERM
		_ = e.node.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, other := range w.believer {
		if other == e {
			delete(w.believer, n)
		}
	}
}

// use is one invocation: it makes IDs and checks the lease.
func (e *environment) use(ctx context.Context, ids *snowflake.Generator) (*snowflake.Generator, error) {
	e.w.count("uses", 1)
	if err := e.node.Refresh(ctx); err != nil {
		e.w.count("failed", 1)
		return ids, err
	}
	var err error
	if ids == nil {
		if ids, err = e.node.Generator(ctx, snowflake.WithLayout(layoutFor(e.w.size))); err != nil {
			return nil, err
		}
	}
	for range 1 + e.dice.IntN(20) {
		if e.dice.IntN(200) == 0 {
			e.freeze(time.Second << e.dice.IntN(13)) // between the check and the stamp
		}
		id, err := ids.Next()
		if err != nil {
			break
		}
		e.w.mu.Lock()
		if by, ok := e.w.made[id]; ok {
			e.w.t.Errorf("S1: ID %d was made by environments %d and %d", id, by, e.number)
		}
		e.w.made[id] = e.number
		e.w.mu.Unlock()
	}
	if l, err := e.node.Lease(); err == nil {
		e.w.mu.Lock()
		defer e.w.mu.Unlock()
		if other := e.w.believer[l.NodeID]; other != nil && other != e && !e.w.wild {
			if o, err := other.node.Lease(); err == nil && o.NodeID == l.NodeID {
				e.w.t.Errorf("S2: environments %d and %d both believe in node %d", other.number, e.number, l.NodeID)
			}
		}
		e.w.believer[l.NodeID] = e
	}
	return ids, nil
}

func layoutFor(size int) snowflake.Layout {
	if l := snowflake.Default(); size <= l.Nodes() {
		return l
	}
	return snowflake.Wide16()
}

// operate runs the reaper, and frees leases by force.
func (w *world) operate(ctx context.Context, seed uint64) {
	dice, pool := rand.New(rand.NewPCG(seed, 1<<40)), leasepool.Open(w.table, "orders")
	for ctx.Err() == nil {
		time.Sleep(time.Duration(dice.Int64N(int64(2 * time.Minute))))
		if _, err := pool.Reap(context.Background()); err != nil {
			w.t.Error(err)
		}
		if _, err := pool.Tend(context.Background()); err != nil { // stores the verdict on the table
			w.t.Error(err)
		}
		n := dice.IntN(w.size)
		if l, err := w.table.Get(context.Background(), "orders", n); err == nil && l != nil && l.Holder != "" {
			_, _ = w.table.Write(context.Background(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: n}, Version: l.Version, Holder: l.Holder})
			w.count("freed by force", 1)
		}
	}
}

// Environments sleep, wake, die and have wrong clocks, and no ID is made twice.
func TestWorldOfNaps(t *testing.T) {
	for name, wild := range map[string]bool{"some clock shows each freeze": false, "freezes that no clock shows, and clocks that jump": true} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				size := 256
				for 4*size < *environments {
					size *= 2
				}
				w := &world{t: t, table: leasetest.NewMemory("orders", size), size: size, wild: wild, made: map[snowflake.ID]int{}, believer: map[int]*environment{}, counts: map[string]int{}}
				ctx, stop := context.WithCancel(context.Background())
				w.late.Go(func() { w.operate(ctx, *firstSeed) })
				dice := rand.New(rand.NewPCG(*firstSeed, 0))
				var all sync.WaitGroup
				for number := 0; number < *environments; {
					// Now and then the load rises by a factor of 100 for a minute.
					herd := 1
					if dice.IntN(20) == 0 {
						herd = min(100, size/8)
					}
					for range min(herd, *environments-number) {
						number++
						n := number
						all.Go(func() { w.live(n, *firstSeed) })
						time.Sleep(time.Duration(dice.Int64N(int64(time.Minute) / int64(herd))))
					}
				}
				all.Wait()
				stop()
				fixture.Wait(6 * time.Hour) // until the last requests of dead environments have arrived
				w.late.Wait()
				slices.Sort(w.first)
				t.Logf("%d environments on %d node IDs, %d IDs; requests of a first use: median %d, p99 %d; %v",
					*environments, size, len(w.made), w.first[len(w.first)/2], w.first[len(w.first)*99/100], w.counts)
				if len(w.made) < *environments || 2*w.counts["failed"] > w.counts["uses"] {
					t.Errorf("%d IDs, and %d of %d uses failed: the world shows nothing", len(w.made), w.counts["failed"], w.counts["uses"])
				}
			})
		})
	}
}

// On a network without faults, continuous use costs at most 1.6 writes per TTL. Short-lived
// processes cost at most 1.5 writes per claim while less than half of the node IDs are
// taken.
func TestWritesOfNaps(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		o := agentOn(t, s)
		const ttls = 100
		for range ttls * 300 {
			if err := o.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // virtual time
		}
		perTTL := float64(s.Writes()-1) / ttls
		t.Logf("continuous use: %.2f writes in each TTL", perTTL)
		if perTTL > 1.6 {
			t.Errorf("continuous use: got %.2f writes in each TTL, want 1.6 at most", perTTL)
		}
	})
	for name, release := range map[string]bool{"without release": false, "with release": true} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				const size, workers = 1024, 4096
				s := fixture.NewNetwork(size)
				// Workers of 10 s; those that do not release hold their node ID for 301 s.
				hold := 301 * time.Second
				if release {
					hold = 10 * time.Second
				}
				every := hold / (size * 9 / 20) // so that 45 % of the node IDs are held
				for range workers {
					o := agentOn(t, s)
					if err := o.Refresh(t.Context()); err != nil {
						t.Fatal(err)
					}
					if release {
						time.AfterFunc(10*time.Second, func() { _ = o.Close() })
					}
					time.Sleep(every) // virtual time
				}
				fixture.Wait(11 * time.Second)
				claims := len(fixture.WritesOf[protocol.Claim](s))
				t.Logf("%s, at 45 %% occupancy: %.2f claims, %.2f writes per worker", name, float64(claims)/workers, float64(s.Writes())/workers)
				if got := float64(claims) / workers; got > 1.5 {
					t.Errorf("got %.2f claims per worker, want 1.5 at most", got)
				}
			})
		})
	}
}

// requests records all requests.
type requests struct {
	*leasetest.Memory
	sent []string
}

func (r *requests) Check(ctx context.Context) error {
	r.sent = append(r.sent, "DescribeTable")
	return r.Memory.Check(ctx)
}

func (r *requests) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	r.sent = append(r.sent, "pool")
	return r.Memory.PoolItem(ctx, pool)
}

func (r *requests) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	r.sent = append(r.sent, "group")
	return r.Memory.Group(ctx, pool, n)
}

func (r *requests) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	r.sent = append(r.sent, "claim")
	return r.Memory.Write(ctx, w)
}

// On a table without faults, the first ID takes one read and one claim if the pool's item
// contains the reaper's verdict and its mark on the layout. Otherwise it takes more
// requests.
func TestRequestsOfAFirstUse(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		table := leasetest.NewMemory("orders", 256)
		if _, err := siblings.BindLayout(t.Context(), table, protocol.PoolItem{Pool: "orders", Size: 256}, nil); err != nil {
			t.Fatal(err)
		}
		first := func(want string) {
			t.Helper()
			r := &requests{Memory: table}
			g, err := agentOn(t, r).Generator(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Next(); err != nil {
				t.Fatal(err)
			}
			// If the guessed node ID is taken, a group is read and another claim is made.
			// The test ignores this: it treats several claims in a row as one.
			sent := slices.DeleteFunc(r.sent, func(what string) bool { return what == "group" })
			if got := strings.Join(slices.Compact(sent), ", "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		first("pool, DescribeTable, claim, pool")
		if _, err := leasepool.Open(table, "orders").Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		first("pool, claim, pool")
		if _, err := leasepool.Open(table, "orders").Reap(t.Context()); err != nil {
			t.Fatal(err)
		}
		first("pool, claim")
	})
}

// If 45 % of the node IDs are held, some are cooling, and there are no faults, the first ID
// takes two requests at the median and four at p99: if the guessed node ID is taken, a group
// is read and another claim is made.
func TestRequestsUpToHalfOccupancy(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		const size, uses = 1024, 2000
		table := leasetest.NewMemory("orders", size)
		use := func() (o *lease.OnDemand, sent []string) {
			r := &requests{Memory: table}
			o = agentOn(t, r)
			if g, err := o.Generator(t.Context()); err != nil {
				t.Fatal(err)
			} else if _, err := g.Next(); err != nil {
				t.Fatal(err)
			}
			return o, r.sent
		}
		for range size * 9 / 20 {
			use()
		}
		if _, err := leasepool.Open(table, "orders").Tend(t.Context()); err != nil { // the reaper function's verdict
			t.Fatal(err)
		}
		if _, err := leasepool.Open(table, "orders").Reap(t.Context()); err != nil { // and its mark
			t.Fatal(err)
		}
		var counts []int
		for range uses {
			o, sent := use()
			counts = append(counts, len(sent))
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond) // virtual time, in which released node IDs cool
		}
		slices.Sort(counts)
		median, p99, most := counts[uses/2], counts[uses*99/100], counts[uses-1]
		t.Logf("requests of a first use: median %d, p99 %d, most %d", median, p99, most)
		if median > 2 || p99 > 4 {
			t.Errorf("got a median of %d requests and a p99 of %d, want 2 and 4 at most", median, p99)
		}
	})
}

func agentOn(t *testing.T, s lease.Store) *lease.OnDemand {
	t.Helper()
	o, err := lease.NewOnDemand(fixture.Config(s))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
