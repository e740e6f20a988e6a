package leasepool_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// The following tests are for pools whose node IDs become wider while they are in use.

// narrow seeds a narrow pool of the given size with the given number of open groups.
func narrow(t *testing.T, s protocol.Store, size, open int) *leasepool.Pool {
	t.Helper()
	p := leasepool.Open(s, "orders")
	if _, err := p.Seed(t.Context(), leasepool.Spec{Size: size, ExcludeBelow: 8, Narrow: true}); err != nil {
		t.Fatal(err)
	}
	if open > 1 {
		if res, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: open}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
	}
	return p
}

// widened checks that the pool has had these widths. It also checks that every node ID
// that fits the last width exists, is marked, and cannot be used for stamps before its
// width begins.
func widened(t *testing.T, s protocol.Store, widths ...int) protocol.PoolItem {
	t.Helper()
	item, err := s.PoolItem(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if len(item.Eras) != len(widths) || item.Widening.State != protocol.WidenDone {
		t.Fatalf("%+v, want the widths %v", item, widths)
	}
	for i, era := range item.Eras {
		if era.NodeBits != widths[i] {
			t.Fatalf("%+v, want the widths %v", item, widths)
		}
	}
	last := item.Eras[len(item.Eras)-1]
	leases, _ := all(t, leasepool.Open(s, "orders"))
	if want := min(item.Size, 1<<last.NodeBits); item.ExistBelow != want || len(leases) != want-item.ExcludeBelow {
		t.Fatalf("%d node IDs, %d are there, want %d", item.ExistBelow, len(leases), want)
	}
	for n, l := range leases {
		if l.WidenTry != item.Widening.Try || n >= 1<<(last.NodeBits-1) && len(widths) > 1 && l.ReservedUntil.Before(last.From) {
			t.Fatalf("node %d is %+v", n, l)
		}
	}
	return item
}

func TestWiden(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := narrow(t, s, 700, 1)
		widened(t, s, 9)
		if c, err := p.Widen(t.Context()); err != nil || c.Marked+c.Seeded > 0 {
			t.Fatalf("one group needs 9 bits: %+v, %v", c, err)
		}
		fixture.Hold(t, s, 100, time.Now(), 15*time.Second)
		if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2}); err != nil {
			t.Fatal(err)
		}
		c, err := p.Widen(t.Context())
		if err != nil || c.Marked != 504 || c.Seeded != 188 {
			t.Fatalf("%+v, %v", c, err)
		}
		item := widened(t, s, 9, 10)
		if left := time.Until(item.Eras[1].From); left < 15*time.Second || left > 40*time.Second {
			t.Errorf("the new width begins in %v", left)
		}
	})
}

// If the seed of a node ID is late, the mark creates the node ID, and the late seed
// changes nothing.
func TestWidenMakesWhatIsMissing(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	for n := range 512 { // another process is seeding, and has not seeded node ID 77 yet
		if n != 77 {
			if _, err := s.Write(t.Context(), protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: n}, Floor: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.WritePool(t.Context(), protocol.CreatePool{Pool: "orders", Size: 512, OpenGroups: 2, NodeBits: 9, ExistBelow: 512, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if c, err := leasepool.Open(s, "orders").Widen(t.Context()); err != nil || c.Marked != 512 {
		t.Fatalf("%+v, %v", c, err)
	}
	widened(t, s, 9, 10)
	res, err := s.Write(t.Context(), protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: 77}, Floor: time.Now()})
	if err != nil || res.Applied {
		t.Errorf("the late seed: %+v, %v", res, err)
	}
}

// The second widening comes before the first one's node IDs are seeded, and before the
// first one's width has begun. The marks create these node IDs in such a way that nobody
// can use them for stamps before their width begins.
func TestWidenTwiceInARow(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	narrow(t, s, 2048, 2)
	ctx, cut := stopAfter[protocol.Seed](t, s, 1)
	if _, err := leasepool.Open(cut, "orders").Widen(ctx); err == nil {
		t.Fatal("it was cut off")
	}
	item, err := s.PoolItem(t.Context(), "orders")
	if err != nil || item.ExistBelow != 1024 || len(item.Eras) != 2 {
		t.Fatalf("%+v, %v", item, err)
	}
	if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 2, To: 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := leasepool.Open(s, "orders").Widen(t.Context()); err != nil {
		t.Fatal(err)
	}
	widened(t, s, 9, 10, 11)
	for n := 512; n < 1024; n++ {
		if l, err := s.Get(t.Context(), "orders", n); err != nil || l.ReservedUntil.Before(item.Eras[1].From) {
			t.Fatalf("%+v, %v: its width begins at %v", l, err, item.Eras[1].From)
		}
	}
}

// A widening that is cut off anywhere is finished by the next widener, and marked node IDs
// are not marked again.
func TestWidenResumes(t *testing.T) {
	for _, after := range []int64{1, 300, 504} {
		s := leasetest.NewMemory("", 0)
		narrow(t, s, 1024, 2)
		ctx, cut := stopAfter[protocol.Mark](t, s, after)
		if _, err := leasepool.Open(cut, "orders").Widen(ctx); err == nil {
			t.Fatal("it was cut off")
		}
		item, err := s.PoolItem(t.Context(), "orders")
		if err != nil || item.Widening.State != protocol.WidenOpen || len(item.Eras) != 1 || item.ExistBelow != 512 {
			t.Fatalf("%+v, %v", item, err)
		}
		c, err := leasepool.Open(s, "orders").Widen(t.Context())
		if err != nil || c.Pool.Widening.Try != 1 || c.Marked > int(504-after)+32 {
			t.Fatalf("cut off after %d marks: %+v, %v", after, c, err)
		}
		widened(t, s, 9, 10)
	}
}

// If many processes widen a pool at once, the pool gets only one new width.
func TestWidenTogether(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		narrow(t, s, 600, 2)
		fixture.Together(4, func(int) {
			if _, err := leasepool.Open(s, "orders").Widen(t.Context()); err != nil {
				t.Error(err)
			}
		})
		widened(t, s, 9, 10)
	})
}

// A reservation far ahead delays the new width, which begins after the reservation ends.
// The widener finds such a reservation when it reads the node IDs. If a holder makes the
// reservation later, the widener finds it when it marks the node IDs, and begins another
// try.
func TestWidenBehindWhatIsReserved(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	narrow(t, s, 512, 2)
	early := fixture.Hold(t, s, 30, time.Now(), 10*time.Minute)
	var late protocol.Lease
	var once sync.Once
	p := leasepool.Open(through{Store: s, before: func(w protocol.Write) error {
		if _, ok := w.(protocol.Mark); ok {
			once.Do(func() { late = fixture.Hold(t, s, 31, time.Now(), time.Hour) })
		}
		return nil
	}}, "orders")
	c, err := p.Widen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	item := widened(t, s, 9, 10)
	if !item.Eras[1].From.After(early.ReservedUntil) {
		t.Errorf("from %v, and %v is reserved", item.Eras[1].From, early.ReservedUntil)
	}
	if l, _ := s.Get(t.Context(), "orders", 31); late.Holder == "" || !item.Eras[1].From.After(l.ReservedUntil) {
		t.Errorf("from %v, and %v is reserved: %+v", item.Eras[1].From, l.ReservedUntil, c)
	}
}

// The holder of a corrupt item could not be told about a new width, so the width stays,
// and reservations are not limited.
func TestWidenStopsAtWhatIsCorrupt(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, corrupt func(int)) {
		if corrupt == nil {
			t.Skip("this store cannot hold a corrupt item")
		}
		p := narrow(t, s, 300, 2)
		corrupt(200)
		_, err := p.Widen(t.Context())
		errorHas(t, err, "corrupt", "200")
		item, err := s.PoolItem(t.Context(), "orders")
		if err != nil || len(item.Eras) != 1 || item.Widening.State == protocol.WidenOpen {
			t.Errorf("%+v, %v", item, err)
		}
	})
}

// No node ID is added while a try is open. A node ID that needs the new width is added
// only after the width is committed.
func TestGrowthWaitsForTheWidth(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	p := narrow(t, s, 300, 1)
	if c, err := p.Resize(t.Context(), leasepool.Spec{Size: 3000, ExcludeBelow: 8, Narrow: true}); err != nil || c.Pool.ExistBelow != 512 || c.Seeded != 212 {
		t.Fatalf("%+v, %v", c, err)
	}
	widened(t, s, 9)
	if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2}); err != nil {
		t.Fatal(err)
	}
	var early atomic.Int64
	watched := through{Store: s, before: func(w protocol.Write) error {
		if w, ok := w.(protocol.Seed); ok && w.NodeID >= 512 {
			if item, err := s.PoolItem(context.Background(), "orders"); err != nil || len(item.Eras) != 2 {
				early.Add(1)
			}
		}
		return nil
	}}
	c, err := leasepool.Open(watched, "orders").Resize(t.Context(), leasepool.Spec{Size: 4000, ExcludeBelow: 8, Narrow: true})
	if err != nil || c.Pool.Size != 4000 || early.Load() > 0 {
		t.Fatalf("%+v, %v, %d early seeds", c, err, early.Load())
	}
	widened(t, s, 9, 10)
	for _, other := range []leasepool.Spec{{Size: 4000, ExcludeBelow: 8}, {Size: 4000, ExcludeBelow: 7, Narrow: true}} {
		if _, err := p.Seed(t.Context(), other); err == nil {
			t.Errorf("%+v is another pool", other)
		}
	}
}

// fleet is a group of agents that make a few IDs every 100 ms, all the time.
type fleet struct {
	t    *testing.T
	mu   sync.Mutex
	made map[snowflake.ID]int // the node ID with which each ID was made
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, made: map[snowflake.ID]int{}, stop: make(chan struct{})}
	t.Cleanup(f.halt)
	return f
}

func (f *fleet) halt() {
	f.once.Do(func() { close(f.stop) })
	f.wg.Wait()
}

// join starts an agent that makes IDs until the fleet ends. Every call for an ID must
// succeed within a millisecond.
func (f *fleet) join(cfg lease.Config) {
	a, err := lease.Start(f.t.Context(), cfg)
	if err != nil {
		f.t.Error(err)
		return
	}
	g, err := snowflake.New(a, snowflake.WithLayout(snowflake.Wide16()))
	if err != nil {
		f.t.Error(err)
		return
	}
	f.wg.Go(func() {
		defer func() { _ = a.Close() }()
		last := snowflake.ID(0)
		for {
			for range 70 { // more IDs than fit one value of the burst bits
				before := time.Now()
				id, err := g.Next()
				if took := time.Since(before); err != nil || id <= last || took > time.Millisecond {
					f.t.Errorf("node %d: %d after %d in %v, %v", a.NodeID(), id, last, took, err)
					return
				}
				last = id
				f.mu.Lock()
				if _, twice := f.made[id]; twice {
					f.t.Errorf("node %d: %d was made before", a.NodeID(), id)
				}
				f.made[id] = a.NodeID()
				f.mu.Unlock()
			}
			select {
			case <-f.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// end stops the fleet, and decodes every ID with the pool's history of widths.
func (f *fleet) end(s protocol.Store) protocol.PoolItem {
	f.halt()
	item, err := s.PoolItem(context.Background(), "orders")
	if err != nil {
		f.t.Fatal(err)
	}
	inEra := map[int]int{}
	for id, node := range f.made {
		p := item.Eras.Decompose(snowflake.Wide16(), id)
		if p.Node != node {
			f.t.Errorf("%d was made by node %d and is taken apart as %+v", id, node, p)
		}
		era := 0
		for era+1 < len(item.Eras) && !item.Eras[era+1].From.After(p.Time) {
			era++
		}
		inEra[era]++
	}
	f.t.Logf("%d IDs by era: %v; %+v", len(f.made), inEra, item)
	return item
}

// A fleet grows from one group to five. The agents make the node IDs wider without help,
// while they make IDs.
func TestFleetWidens(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		narrow(t, s, 65536, 1)
		f := newFleet(t)
		for range 5 {
			for range 6 { // these make IDs; the 194 others only hold a node ID
				f.join(fixture.Config(s))
			}
			for range 194 {
				fixture.Start(t, fixture.Config(s))
			}
			fixture.Wait(30 * time.Second)
		}
		if item := f.end(s); len(item.Eras) < 3 || item.Eras[len(item.Eras)-1].NodeBits != 11 || item.OpenGroups < 4 {
			t.Errorf("%+v", item)
		}
	})
}

// An agent that is cut off during the change makes no ID of the wrong width. When it is
// connected again, it continues with the new width.
func TestSleeperLearnsTheWidth(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(0)
		narrow(t, s, 1024, 1)
		var away atomic.Bool
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Renew); ok && away.Load() {
				return fixture.Hang(ctx)
			}
			return do()
		})
		var widened, lost atomic.Int64
		cfg := fixture.Config(s)
		cfg.OnEvent = func(e lease.Event) {
			switch e.Kind {
			case lease.EventWidened:
				widened.Add(1)
			case lease.EventLost:
				lost.Add(1)
			}
		}
		a := fixture.Start(t, cfg)
		g, err := snowflake.New(a, snowflake.WithLayout(snowflake.Wide16()))
		if err != nil {
			t.Fatal(err)
		}
		before, err := g.Next()
		if err != nil {
			t.Fatal(err)
		}
		away.Store(true)
		if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2}); err != nil {
			t.Fatal(err)
		}
		c, err := leasepool.Open(s, "orders").Widen(t.Context())
		if err != nil || len(c.Pool.Eras) != 2 {
			t.Fatalf("%+v, %v", c, err)
		}
		for time.Until(c.Pool.Eras[1].From) > -time.Minute {
			fixture.Wait(500 * time.Millisecond)
			if id, err := g.Next(); err == nil && !c.Pool.Eras.Decompose(snowflake.Wide16(), id).Time.Before(c.Pool.Eras[1].From) {
				t.Fatalf("%d behind the change, which it has not learned of", id)
			}
		}
		away.Store(false)
		fixture.Wait(10 * time.Second) // long enough for two attempts, each after an attempt that hangs and a pause
		id, err := g.Next()
		if err != nil || id <= before || c.Pool.Eras.Decompose(snowflake.Wide16(), id).Node != a.NodeID() {
			t.Errorf("%d, %v", id, err)
		}
		if widened.Load() != 1 || lost.Load() > 0 {
			t.Errorf("%d widenings were learnt of, %d leases lost", widened.Load(), lost.Load())
		}
	})
}

// A widener that dies blocks nobody. If the widener's open try keeps a holder from
// reserving what it needs, the holder voids the try, and the next widener starts over.
func TestDeadWidenerStopsNobody(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		narrow(t, s, 1024, 2)
		f := newFleet(t)
		for range 5 {
			f.join(fixture.Config(s))
		}
		ctx, cut := stopAfter[protocol.Mark](t, s, 504) // all node IDs but one are marked, so the holders have read of the try
		if _, err := leasepool.Open(cut, "orders").Widen(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want context.Canceled", err)
		}
		fixture.Wait(2 * time.Minute)
		item, err := s.PoolItem(t.Context(), "orders")
		if err != nil || item.Widening.State != protocol.WidenVoid {
			t.Fatalf("%+v, %v", item, err)
		}
		f.join(fixture.Config(s)) // an agent that starts now is not stopped either
		if _, err := leasepool.Open(s, "orders").Widen(t.Context()); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Minute)
		if item := f.end(s); item.Widening.Try != 2 || len(item.Eras) != 2 {
			t.Errorf("%+v", item)
		}
	})
}

// A widener that dies while a claimant waits for a node ID does not block the claimant
// either, even if all node IDs are reserved beyond the beginning of the new width.
// Meanwhile, the claimant reads the pool's item only from time to time.
func TestWaitingBesideADeadWidener(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &readPool{Network: fixture.NewNetwork(0)}
		narrow(t, s, 9, 1)
		held := fixture.Hold(t, s, 8, time.Now(), time.Minute)
		item, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now().Add(25 * time.Second).Truncate(time.Millisecond)
		begin := protocol.BeginWiden{Pool: "orders", Try: 1, Seen: protocol.WidenDone, From: from, Bits: 10, ExistBelow: item.ExistBelow}
		if res, err := s.WritePool(t.Context(), begin); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		began := time.Now()
		cfg := fixture.Config(s)
		cfg.Wait = 5 * time.Minute
		a := fixture.Start(t, cfg)
		if took := time.Since(began); took > held.ReservedUntil.Sub(began)+5*time.Second || a.NodeID() != 8 {
			t.Errorf("node %d after %v", a.NodeID(), took)
		}
		if n := s.reads.Load(); n > 200 {
			t.Errorf("the pool was read %d times in a minute", n)
		}
	})
}

// readPool is a store that counts how often the pool's item is read.
type readPool struct {
	*fixture.Network
	reads atomic.Int64
}

func (s *readPool) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	s.reads.Add(1)
	return s.Network.PoolItem(ctx, pool)
}

// While a try is open, agents that have read of it reserve no milliseconds at or after
// the beginning of the new width. Their earlier requests are not reduced.
func TestOpenTryCaps(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(0)
		narrow(t, s, 512, 1)
		stuck := &stuckPool{Memory: s.Memory} // nobody can void the try, so the limit on reservations stays
		a := fixture.Start(t, fixture.Config(stuck))
		from := time.Now().Add(25 * time.Second).Truncate(time.Millisecond)
		if _, err := s.WritePool(t.Context(), protocol.BeginWiden{Pool: "orders", Try: 1, Seen: protocol.WidenDone, From: from, Bits: 10, ExistBelow: 512}); err != nil {
			t.Fatal(err)
		}
		if res, err := s.Write(t.Context(), protocol.Mark{Key: protocol.Key{Pool: "orders", NodeID: a.NodeID()}, Try: 1, From: from}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		fixture.Start(t, fixture.Config(stuck))
		synctest.Wait()
		fixture.Wait(24 * time.Second)
		for _, w := range stuck.asked() {
			if !w.Before(from) {
				t.Errorf("%v was asked for, the try begins at %v", w, from)
			}
		}
		if len(stuck.asked()) < 4 {
			t.Errorf("%d requests", len(stuck.asked()))
		}
	})
}

// stuckPool is a store whose pool's item cannot be written.
type stuckPool struct {
	*leasetest.Memory
	mu    sync.Mutex
	until []time.Time
}

func (s *stuckPool) WritePool(context.Context, protocol.PoolWrite) (protocol.PoolResult, error) {
	return protocol.PoolResult{}, errors.New("away")
}

func (s *stuckPool) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	s.mu.Lock()
	switch w := w.(type) {
	case protocol.Claim:
		s.until = append(s.until, w.ReservedUntil)
	case protocol.Renew:
		s.until = append(s.until, w.ReservedUntil)
	}
	s.mu.Unlock()
	return s.Memory.Write(ctx, w)
}

func (s *stuckPool) asked() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}
