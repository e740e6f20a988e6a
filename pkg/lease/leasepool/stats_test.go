package leasepool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func TestStats(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, corrupt func(int)) {
		p := seeded(t, s, 600, 10, 23)
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 60, ExcludeBelow: 10}); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		fixture.Hold(t, s, 20, now, time.Hour)
		fixture.Hold(t, s, 21, now, time.Hour)
		fixture.Hold(t, s, 22, now, time.Hour)
		fixture.Hold(t, s, 23, now.Add(-3*time.Second), time.Second) // expired
		cooling := fixture.Hold(t, s, 24, now, time.Hour)
		if _, err := p.ForceRelease(t.Context(), 24, cooling.Version); err != nil {
			t.Fatal(err)
		}
		want := leasepool.Stats{Capacity: 50, Held: 3, Free: 45, Expired: 1, Cooling: 1, Retired: 540, Utilization: 6, Releases: []leasepool.Release{{Held: 3}}}
		if corrupt != nil {
			corrupt(30)
			want.Capacity, want.Free, want.Utilization = 49, 44, 100*3/49.
		}
		got, err := p.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		bad := got.Corrupt
		want.Pool, got.Corrupt = got.Pool, nil
		want.Outage = leasepool.Outage{Holders: 3, FiveMinutes: 3, FirstStops: got.Outage.FirstStops} // TestOutageInStats tests the other values
		if g, w := asJSON(t, got), asJSON(t, want); g != w {
			t.Errorf("stats\n%s, want\n%s", g, w)
		}
		if (len(bad) == 1 && strings.Contains(bad[30], "reserved_until")) != (corrupt != nil) {
			t.Errorf("corrupt: %v", bad)
		}
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A pool without usable node IDs is counted as full, so that its alarm goes off.
func TestStatsWithoutCapacity(t *testing.T) {
	s := leasetest.NewMemory("orders", 1)
	if _, err := s.Write(t.Context(), protocol.Retire{Key: protocol.Key{Pool: "orders"}, Retired: true}); err != nil {
		t.Fatal(err)
	}
	got, err := leasepool.Open(s, "orders").Stats(t.Context())
	if err != nil || got.Capacity != 0 || got.Retired != 1 || got.Utilization != 100 {
		t.Errorf("%+v, %v", got, err)
	}
}

// All retired node IDs are counted, including those in groups that cannot contain leases.
func TestStatsRetired(t *testing.T) {
	for _, sizes := range [][2]int{{1024, 12}, {1024, 300}, {2048, 512}, {512, 1024}} {
		s := leasetest.NewMemory("orders", sizes[0])
		p := leasepool.Open(s, "orders")
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: sizes[1]}); err != nil {
			t.Fatal(err)
		}
		got, err := p.Stats(t.Context())
		if want := max(0, sizes[0]-sizes[1]); err != nil || got.Retired != want || got.Capacity != sizes[1] || got.Free != sizes[1] {
			t.Errorf("from %d to %d: %d retired, capacity %d, %d free, %v, want %d retired", sizes[0], sizes[1], got.Retired, got.Capacity, got.Free, err, want)
		}
	}
}

// A lease that has grown has reserved hours of milliseconds, and so has a lease that had
// grown and is short again. Neither of them is stuck.
func TestGrownLeasesAreNotStuck(t *testing.T) {
	s := leasetest.NewMemory("orders", 10)
	fixture.Hold(t, s, 3, time.Now().Add(4*time.Hour), 15*time.Second)
	if got, err := leasepool.Open(s, "orders").Stats(t.Context()); err != nil || got.Stuck != 0 {
		t.Errorf("%+v, %v, want none stuck", got, err)
	}
}

// With a MaxReserve above the default, a holder reserves half a day ahead. That does not
// make its node ID stuck, neither while the holder lives nor while the node ID is cooling
// afterwards. A node ID is stuck if its holder's clock is hours ahead, or if it is
// cooling for longer than half of its holder's life.
func TestLongReservesAreNotStuck(t *testing.T) {
	now := time.Now()
	session := func(age time.Duration) string {
		id := uuid.Must(uuid.NewV7())
		at := now.Add(-age).UnixMilli()
		for i := range 6 {
			id[i] = byte(at >> (8 * (5 - i)))
		}
		return id.String()
	}
	for name, c := range map[string]struct {
		ahead    time.Duration // how far the holder's clock is ahead
		reserve  time.Duration
		age      time.Duration
		freed    bool
		stuck    int
		stranger bool // the session is not a UUIDv7
	}{
		"held":                               {reserve: 12 * time.Hour, age: 24 * time.Hour},
		"held by a clock that is ahead":      {ahead: 6 * time.Hour, reserve: 12 * time.Hour, age: 24 * time.Hour, stuck: 1},
		"freed":                              {reserve: 12 * time.Hour, age: 24 * time.Hour, freed: true},
		"freed, young":                       {reserve: 12 * time.Hour, age: 10 * time.Hour, freed: true, stuck: 1},
		"freed, of a clock that was ahead":   {ahead: 12 * time.Hour, reserve: 15 * time.Second, age: -12 * time.Hour, freed: true, stuck: 1},
		"freed, of a session without a date": {reserve: 12 * time.Hour, freed: true, stranger: true, stuck: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := leasetest.NewMemory("orders", 10)
			p := leasepool.Open(s, "orders")
			holder := session(c.age)
			if c.stranger {
				holder = "a session"
			}
			at := now.Add(c.ahead)
			res, err := s.Write(t.Context(), protocol.Claim{
				Key: protocol.Key{Pool: "orders", NodeID: 3}, Session: holder, At: at, ClaimGuard: time.Second, TTL: 15 * time.Minute,
				ExpiresAt: at.Add(15 * time.Minute), ReservedUntil: at.Add(max(c.reserve, 16*time.Minute)),
			})
			if err != nil || !res.Applied {
				t.Fatal(res, err)
			}
			if c.freed {
				if _, err := p.ForceRelease(t.Context(), 3, res.Lease.Version); err != nil {
					t.Fatal(err)
				}
			}
			got, err := p.Stats(t.Context())
			if err != nil || got.Stuck != c.stuck {
				t.Errorf("%d stuck, %v, want %d", got.Stuck, err, c.stuck)
			}
		})
	}
}

// As long as an expired lease has reserved milliseconds ahead, its node ID is counted as
// cooling and not as expired.
func TestGrownLeasesThatExpired(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	p := seeded(t, s, 10, 0, 3)
	began := time.Now().Add(-90 * time.Second)
	w := renew(fixture.Hold(t, s, 3, began, 15*time.Second), began)
	w.ReservedUntil = time.Now().Add(time.Hour)
	if res, err := s.Write(t.Context(), w); err != nil || !res.Applied {
		t.Fatal(res, err)
	}
	if got, err := p.Stats(t.Context()); err != nil || got.Cooling != 1 || got.Expired != 0 || got.Held != 0 {
		t.Errorf("%+v, %v, want one cooling", got, err)
	}
	if r, err := p.Due(t.Context()); err != nil || len(r.Due) != 0 {
		t.Errorf("%+v, %v, want nothing due", r, err)
	}
}

// A measurement is stored in the pool's item, is valid for twice the time since the
// previous one, and does not replace a measurement that was stored meanwhile.
func TestMeasure(t *testing.T) {
	s := leasetest.NewMemory("orders", 10)
	p := leasepool.Open(s, "orders")
	now := time.UnixMilli(2_000_000_000).UTC()
	for i, c := range []struct{ at, valid time.Duration }{{0, 10 * time.Minute}, {time.Minute, 10 * time.Minute}, {time.Hour, 118 * time.Minute}, {9 * time.Hour, 2 * time.Hour}, {8 * time.Hour, 10 * time.Minute}} {
		got, err := p.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		old := got
		got.Held, got.Cooling, got.Expired = i, 2, 3
		if err := p.Measure(t.Context(), got, now.Add(c.at)); err != nil {
			t.Fatal(err)
		}
		old.Held = 99 // a measurement by a process that began earlier
		if err := p.Measure(t.Context(), old, now.Add(c.at)); err != nil {
			t.Fatal(err)
		}
		item, err := s.PoolItem(t.Context(), "orders")
		if want := (protocol.Measured{Held: i, Cooling: 5, At: now.Add(c.at), Valid: c.valid}); err != nil || item.Measured == nil || *item.Measured != want || item.Revision != got.Pool.Revision {
			t.Errorf("%+v of revision %d, %v, want %+v of revision %d", item.Measured, item.Revision, err, want, got.Pool.Revision)
		}
	}
}

// If the function runs every quarter of an hour, holders count in turn only until its
// second run. From then on, a measurement is valid for twice the time between runs.
func TestMeasureAfterAHolder(t *testing.T) {
	s := leasetest.NewMemory("orders", 10)
	p := leasepool.Open(s, "orders")
	now := time.UnixMilli(2_000_000_000).UTC()
	for _, c := range []struct {
		at     time.Duration // in minutes
		holder bool
		valid  time.Duration
	}{{0, false, 10}, {11, true, 30}, {15, false, 120}, {30, false, 30}, {45, false, 30}} {
		at := now.Add(c.at * time.Minute)
		got, err := p.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.holder {
			_, err = s.WritePool(t.Context(), protocol.Measure{Pool: "orders", Seen: got.Pool.Measured, Measured: tenure.Count(1, 0, at)})
		} else {
			err = p.Measure(t.Context(), got, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		if item, err := s.PoolItem(t.Context(), "orders"); err != nil || item.Measured.Valid.Truncate(time.Second) != c.valid*time.Minute || !item.Measured.At.Equal(at) {
			t.Errorf("after %d min: %+v, %v, want it valid for %d min", c.at, item.Measured, err, c.valid)
		}
	}
}

// Stuck node IDs are counted, and a reaper that holds leases back is reported.
func TestStatsStuckAndBraked(t *testing.T) {
	s := leasetest.NewMemory("orders", 10)
	fixture.Hold(t, s, 3, time.Now().Add(6*time.Hour), 15*time.Second)
	for _, braked := range []bool{false, true} {
		w := protocol.Remember{Pool: "orders", Seen: remembered(t, s).Revision, New: fmt.Sprint(braked), Look: &protocol.ReaperLook{Ended: time.Now(), Count: 1, Braked: braked}}
		if applied, err := s.WriteReaperMemory(t.Context(), w); err != nil || !applied {
			t.Fatal(applied, err)
		}
		if got, err := leasepool.Open(s, "orders").Stats(t.Context()); err != nil || got.Stuck != 1 || got.Braked != braked {
			t.Errorf("%+v, %v, want 1 stuck and braked %v", got, err, braked)
		}
	}
}

// Node IDs below ExcludeBelow or above the size are counted as retired, even if a resize
// has not retired them yet.
func TestStatsOutside(t *testing.T) {
	s := leasetest.NewMemory("orders", 10)
	if _, err := s.WritePool(t.Context(), protocol.ResizePool{Pool: "orders", Revision: 1, To: 6}); err != nil {
		t.Fatal(err)
	}
	got, err := leasepool.Open(s, "orders").Stats(t.Context())
	if err != nil || got.Capacity != 6 || got.Retired != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A narrow pool is full if all node IDs of its present width are held, since no process can
// start before its width grows.
func TestStatsOfANarrowPool(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	p := narrow(t, s, 2048, 2) // its width still has room for 512 node IDs, of which 8 are excluded
	for _, want := range []leasepool.Stats{{Free: 504}, {Held: 504, Utilization: 100}} {
		for n := range want.Held {
			fixture.Hold(t, s, 8+n, time.Now(), time.Minute)
		}
		if got, err := p.Stats(t.Context()); err != nil || got.Capacity != 504 || got.Held != want.Held || got.Free != want.Free || got.Utilization != want.Utilization {
			t.Errorf("got %d held and %d free of %d, %v %%, %v, want %d held and %d free of 504, %v %%", got.Held, got.Free, got.Capacity, got.Utilization, err, want.Held, want.Free, want.Utilization)
		}
	}
}

func TestStatsReservedGroup(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	p := seeded(t, s, 600, 300)
	if _, err := s.Write(t.Context(), protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: 299}, Floor: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Stats(t.Context()); err != nil || got.Capacity != 300 || got.Retired != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
