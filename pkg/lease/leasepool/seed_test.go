package leasepool_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func TestSeed(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, corrupt func(int)) {
		floor := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		p := leasepool.Open(s, "orders")
		last := 0
		p.Progress = func(done, total int) {
			if last++; done != last || total < done {
				t.Errorf("progress %d of %d after %d", done, total, last-1)
			}
		}
		want := 298
		if corrupt != nil {
			corrupt(17)
			want--
		}
		c, err := p.Seed(t.Context(), leasepool.Spec{Size: 300, ExcludeBelow: 2, Floor: floor})
		if err != nil || c.Seeded != want || c.Pool.Size != 300 || c.Pool.ExcludeBelow != 2 || c.Pool.OpenGroups != 2 || last == 0 {
			t.Fatalf("seed: %+v, %v, %d steps", c, err, last)
		}
		leases, bad := all(t, p)
		if len(leases) != want || (len(bad) == 1 && bad[0] == 17) != (corrupt != nil) {
			t.Fatalf("%d leases, corrupt %v", len(leases), bad)
		}
		for n, l := range leases {
			if n < 2 || n >= 300 || l.Version != 0 || l.Holder != "" || !l.ReservedUntil.Equal(floor) {
				t.Fatalf("node %d is %+v", n, l)
			}
		}

		// A second seed with a different floor changes no node ID.
		last = 0
		c, err = p.Seed(t.Context(), leasepool.Spec{Size: 300, ExcludeBelow: 2, Floor: floor.Add(time.Hour)})
		if err != nil || c.Seeded != 0 || (c.Corrupt[17] != "") != (corrupt != nil) {
			t.Fatalf("second seed: %+v, %v", c, err)
		}
		if again, _ := all(t, p); !again[5].ReservedUntil.Equal(floor) {
			t.Errorf("node 5 was seeded twice: %+v", again[5])
		}
		_, err = p.Seed(t.Context(), leasepool.Spec{Size: 301, ExcludeBelow: 2})
		errorHas(t, err, "300", "301", "resize")
		_, err = p.Seed(t.Context(), leasepool.Spec{Size: 300})
		errorHas(t, err, "reserved")
	})
}

func TestSeedRefuses(t *testing.T) {
	for _, c := range []struct {
		pool string
		spec leasepool.Spec
		says []string
	}{
		{"", leasepool.Spec{Size: 1}, []string{"pool name"}},
		{"a b", leasepool.Spec{}, []string{`"a b"`, "size 0", "65536"}}, // all problems at once
		{"p", leasepool.Spec{Size: 65537}, []string{"65537"}},
		{"p", leasepool.Spec{Size: 4, ExcludeBelow: 4}, []string{"4 reserved", "0 to 3"}},
		{"p", leasepool.Spec{Size: 4, ExcludeBelow: -1}, []string{"-1 reserved"}},
		{"p", leasepool.Spec{Size: 4, Floor: time.UnixMilli(1735689600)}, []string{"1970-01-21", "milliseconds"}},
		{"p", leasepool.Spec{Size: 4, Floor: time.Now().AddDate(2, 0, 0)}, []string{"a year ahead"}},
	} {
		s := fixture.NewNetwork(0)
		_, err := leasepool.Open(s, c.pool).Seed(t.Context(), c.spec)
		errorHas(t, err, c.says...)
		if s.Writes() != 0 {
			t.Errorf("%+v: %d writes", c.spec, s.Writes())
		}
	}
}

// A floor that has passed would protect nothing, so the current time replaces it.
func TestSeedEarlyFloor(t *testing.T) {
	s, before := leasetest.NewMemory("", 0), time.Now().Truncate(time.Millisecond)
	p := leasepool.Open(s, "orders")
	if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 1, Floor: before.AddDate(-1, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	if leases, _ := all(t, p); leases[0].ReservedUntil.Before(before) {
		t.Errorf("reserved until %v, want %v or later", leases[0].ReservedUntil, before)
	}
}

// A seed that is cut off reports its progress. No agent can use the pool until all node
// IDs exist. The next run continues the seed.
func TestSeedResumes(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		ctx, cut := stopAfter[protocol.Seed](t, s, 100)
		spec := leasepool.Spec{Size: 600}
		c, err := leasepool.Open(cut, "orders").Seed(ctx, spec)
		errorHas(t, err, "of 3 groups", "run it again")
		if c.Seeded == 0 || c.Seeded > 99 {
			t.Errorf("%d node IDs seeded, want the partial progress", c.Seeded)
		}
		p := leasepool.Open(s, "orders")
		if _, err := p.Stats(t.Context()); !errors.Is(err, protocol.ErrPoolNotSeeded) {
			t.Errorf("stats of a half seeded pool: %v, want ErrPoolNotSeeded", err)
		}
		rest, err := p.Seed(t.Context(), spec)
		leases, _ := all(t, p)
		// A request that was in flight when the first run ended may have been applied.
		if err != nil || rest.Seeded > 600-c.Seeded || rest.Seeded < 500 || len(leases) != 600 {
			t.Errorf("the next run seeded %d after %d, %v; %d node IDs", rest.Seeded, c.Seeded, err, len(leases))
		}
	})
}

// If many processes seed a pool at once, each node ID is seeded once. The processes share
// the work, so that not every process pays for all of it.
func TestSeedTogether(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		const seeders, size = 20, 300
		var writes, seeded atomic.Int64
		counting := through{Store: s, before: func(protocol.Write) error { writes.Add(1); return nil }}
		fixture.Together(seeders, func(int) {
			c, err := leasepool.Open(counting, "orders").Seed(t.Context(), leasepool.Spec{Size: size})
			if err != nil {
				t.Error(err)
			}
			seeded.Add(int64(c.Seeded))
		})
		if seeded.Load() != size {
			t.Errorf("%d node IDs seeded, want %d", seeded.Load(), size)
		}
		// A single seeder would need 300 writes. Seeders that do not share would need
		// 6,000, and seeders that all use the same order about 1,300.
		if most := int64(3 * size); writes.Load() > most {
			t.Errorf("%d writes, want at most %d", writes.Load(), most)
		}
		t.Logf("%d writes for %d node IDs by %d seeders", writes.Load(), size, seeders)
	})
}

// A seed that a slow process sends late never replaces an item.
func TestSeedKeepsHolder(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		seeded(t, s, 4, 0)
		l := fixture.Hold(t, s, 2, time.Now(), 15*time.Second)
		res, err := s.Write(t.Context(), protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: 2}, Floor: time.Now()})
		if err != nil || res.Applied || res.Lease.Version != l.Version || res.Lease.Holder != l.Holder {
			t.Errorf("late seed: %+v, %v", res, err)
		}
	})
}

func TestSeedAnswerLost(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	var lost atomic.Int64
	p := leasepool.Open(through{Store: s, before: func(w protocol.Write) error {
		if lost.Add(1)%3 != 0 {
			return nil
		}
		if _, err := s.Write(t.Context(), w); err != nil { // applied, but not answered
			return err
		}
		return fmt.Errorf("connection reset")
	}}, "orders")
	if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 20}); err != nil {
		t.Fatal(err)
	}
	if leases, _ := all(t, p); len(leases) != 20 {
		t.Errorf("%d node IDs", len(leases))
	}
}

// If another process seeds the same pool faster, with a different size, the slower seed
// fails.
func TestSeedOvertaken(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	var once atomic.Bool
	slow := through{Store: s, before: func(protocol.Write) error {
		if once.Swap(true) {
			return nil
		}
		_, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 5})
		return err
	}}
	_, err := leasepool.Open(slow, "orders").Seed(t.Context(), leasepool.Spec{Size: 8})
	errorHas(t, err, "exists with 5", "resize")
}

// An item that becomes corrupt between the read and the write is reported like any other
// corrupt item, and does not stop the verb.
func TestCorruptMeanwhile(t *testing.T) {
	s := leasetest.NewMemory("orders", 20)
	p := leasepool.Open(through{Store: s, before: func(w protocol.Write) error {
		if k := w.Item(); k.NodeID == 15 {
			return &protocol.CorruptError{Pool: k.Pool, NodeID: k.NodeID, Err: errors.New("version is missing")}
		}
		return nil
	}}, "orders")
	c, err := p.Resize(t.Context(), leasepool.Spec{Size: 10})
	if err != nil || c.Retired != 9 || c.Corrupt[15] != "version is missing" {
		t.Errorf("resize: %+v, %v", c, err)
	}
	c, err = p.Raise(t.Context(), time.Now().Add(time.Minute))
	if err != nil || c.Raised != 19 || c.Corrupt[15] == "" {
		t.Errorf("raise: %+v, %v", c, err)
	}
}

// A seed was cut off before the pool's item existed. The seed that creates the pool has a
// floor, and no node ID of the pool begins before it.
func TestSeedWithAFloorAfterASeedThatWasCutOff(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		ctx, cut := stopAfter[protocol.Seed](t, s, 100)
		if _, err := leasepool.Open(cut, "orders").Seed(ctx, leasepool.Spec{Size: 600}); err == nil {
			t.Fatal("got no error from the seed that was cut off")
		}
		floor := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		p := leasepool.Open(s, "orders")
		if c, err := p.Seed(t.Context(), leasepool.Spec{Size: 600, Floor: floor}); err != nil || !c.Pool.Floor.Equal(floor) {
			t.Fatalf("got %+v, %v, want the floor %v", c, err, floor)
		}
		noneBefore(t, p, floor)
	})
}

// noneBefore fails the test if a node ID begins before the floor.
func noneBefore(t *testing.T, p *leasepool.Pool, floor time.Time) {
	t.Helper()
	leases, _ := all(t, p)
	for n, l := range leases {
		if l.ReservedUntil.Before(floor) {
			t.Fatalf("node %d of %d begins at %v, want %v or later", n, len(leases), l.ReservedUntil, floor)
		}
	}
}

// Seeds of different sizes were cut off before the pool's item existed. All node IDs of the
// seed that creates the pool are in use, and no others.
func TestSeedAfterSeedsOfOtherSizes(t *testing.T) {
	for _, sizes := range [][]int{{600, 300, 600}, {300, 600, 300}} {
		fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
			for _, size := range sizes[:2] {
				ctx, cancel := context.WithCancel(t.Context())
				cut := &poolWrites{Store: s, before: func(protocol.PoolWrite) bool { cancel(); return false }}
				if _, err := leasepool.Open(cut, "orders").Seed(ctx, leasepool.Spec{Size: size}); err == nil {
					t.Fatal("got no error from a seed that was cut off")
				}
			}
			p := leasepool.Open(s, "orders")
			if c, err := p.Seed(t.Context(), leasepool.Spec{Size: sizes[2]}); err != nil || c.Pool.Size != sizes[2] {
				t.Fatalf("got %+v, %v, want a pool of %d", c, err, sizes[2])
			}
			inUse(t, p, sizes[2])
		})
	}
}
