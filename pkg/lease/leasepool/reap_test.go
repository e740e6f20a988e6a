package leasepool_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// reap runs a new reaper once, and returns its report and its log.
func reap(t *testing.T, ctx context.Context, s protocol.Store) (leasepool.ReapReport, string) {
	t.Helper()
	var log bytes.Buffer
	p := leasepool.Open(s, "orders")
	p.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r, err := p.Reap(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r, log.String()
}

// age makes the stored scan older, so that the test need not wait.
func age(t *testing.T, s protocol.Store, by time.Duration) {
	t.Helper()
	m := remembered(t, s)
	if m.Look == nil {
		t.Fatal("no look is remembered")
	}
	m.Look.Ended = m.Look.Ended.Add(-by)
	w := protocol.Remember{Pool: "orders", Seen: m.Revision, New: m.Revision + "+", Look: m.Look}
	if applied, err := s.WriteReaperMemory(t.Context(), w); err != nil || !applied {
		t.Fatal(applied, err)
	}
}

func remembered(t *testing.T, s protocol.Store) protocol.ReaperMemory {
	t.Helper()
	m, err := s.ReaperMemory(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func numbers(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// A lease is freed by the second of two scans that find it due and unchanged, and
// keeps the values that the next holder needs.
func TestReap(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, corrupt func(int)) {
		p := seeded(t, s, 8, 0, 1, 2, 6)
		now := time.Now()
		old := fixture.Hold(t, s, 1, now.Add(-90*time.Second), 15*time.Second) // expired for 75 s
		fixture.Hold(t, s, 2, now.Add(-60*time.Second), 15*time.Second)        // expired for 45 s
		fixture.Hold(t, s, 3, now, 15*time.Second)
		fixture.Hold(t, s, 4, now.Add(24*time.Hour-15*time.Second), 15*time.Second) // renewed by a clock that is ahead
		reserved := fixture.Hold(t, s, 6, now.Add(-90*time.Second), 15*time.Second)
		w := renew(reserved, now.Add(-90*time.Second)) // expired too, and reserved for a minute
		w.ReservedUntil = now.Add(time.Minute)
		if res, err := s.Write(t.Context(), w); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		if corrupt != nil {
			corrupt(5)
		}
		look, err := p.Due(t.Context())
		if err != nil || !slices.Equal(look.Due, []int{1}) || len(look.Freed) != 0 || look.Held != 5 || !slices.Equal(look.Stuck, []int{4}) {
			t.Errorf("due: %+v, %v", look, err)
		}
		first, log := reap(t, t.Context(), s)
		if !slices.Equal(first.Due, []int{1}) || len(first.Freed) != 0 || first.Braked || log != "" || (first.Corrupt[5] != "") != (corrupt != nil) {
			t.Errorf("the first look: %+v, log %q, want node ID 1 due and not freed", first, log)
		}
		if wait := time.Until(first.NextLook); wait < 30*time.Second || wait > 40*time.Second {
			t.Errorf("the next look counts in %v, want 40 s", wait)
		}
		if again, _ := reap(t, t.Context(), s); len(again.Freed) != 0 || !again.NextLook.Equal(first.NextLook.Truncate(time.Millisecond)) {
			t.Errorf("a scan too early: %+v, want nothing freed and the next scan at %v", again, first.NextLook)
		}
		age(t, s, 40*time.Second)
		if r, log := reap(t, t.Context(), s); !slices.Equal(r.Freed, []int{1}) || r.Braked || log != "" || !r.NextLook.IsZero() {
			t.Errorf("the second look: %+v, log %q, want node ID 1 freed", r, log)
		}
		leases, _ := all(t, p)
		if l := leases[1]; l.Holder != "" || !l.ExpiresAt.IsZero() || l.Version != old.Version || !l.ReservedUntil.Equal(old.ReservedUntil) {
			t.Errorf("node ID 1 is %+v after %+v", l, old)
		}
		for _, n := range []int{2, 3, 4, 6} {
			if l := leases[n]; l.Holder == "" {
				t.Errorf("freed too early: %+v", l)
			}
		}
	})
}

// A lease is due after it has been expired for exactly 60 s. The minimum time between two
// scans is observed just as exactly.
func TestReapGrace(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 2)
		fixture.Hold(t, s, 0, time.Now(), 15*time.Second)
		fixture.Hold(t, s, 1, time.Now(), time.Hour)
		fixture.Wait(75 * time.Second)
		if r, _ := reap(t, t.Context(), s); len(r.Due) != 0 || remembered(t, s).Revision != "" {
			t.Errorf("after 60 s sharp: %+v, want none due and nothing written", r)
		}
		fixture.Wait(time.Millisecond)
		if r, _ := reap(t, t.Context(), s); len(r.Due) != 1 {
			t.Errorf("after 60 s: %+v, want one due", r)
		}
		fixture.Wait(40*time.Second - time.Millisecond)
		if r, _ := reap(t, t.Context(), s); len(r.Freed) != 0 {
			t.Errorf("40 s less a moment after the first look: %+v, want none freed", r)
		}
		fixture.Wait(time.Millisecond)
		if r, _ := reap(t, t.Context(), s); len(r.Freed) != 1 {
			t.Errorf("40 s after the first look: %+v, want one freed", r)
		}
	})
}

// The scans of a large pool are further apart: the time between them is four times as
// long as all its holders need to renew on one partition. If the pool gets more holders
// between the scans, the new number is used.
func TestReapLooksAreApart(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 20_000)
		if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 79}); err != nil {
			t.Fatal(err)
		}
		fixture.Hold(t, s, 0, time.Now(), 15*time.Second)
		for n := range 8_999 {
			fixture.Hold(t, s, n+1, time.Now(), time.Hour)
		}
		fixture.Wait(2 * time.Minute)
		if r, _ := reap(t, t.Context(), s); time.Until(r.NextLook) != 46*time.Second {
			t.Errorf("of 9,000 held the next look counts in %v, want 36 s and 10 s for the clocks", time.Until(r.NextLook))
		}
		fixture.Wait(46 * time.Second)
		for n := range 3_000 {
			fixture.Hold(t, s, n+9_000, time.Now(), time.Hour)
		}
		if r, _ := reap(t, t.Context(), s); len(r.Freed) != 0 || time.Until(r.NextLook) != 12*time.Second {
			t.Errorf("of 12,000 held by now: freed %v, the next look counts in %v, want none and 12 s", r.Freed, time.Until(r.NextLook))
		}
		fixture.Wait(12 * time.Second)
		if r, _ := reap(t, t.Context(), s); len(r.Freed) != 1 {
			t.Errorf("freed %v, want one", r.Freed)
		}
	})
}

// The test is for pools in which more than 8 leases, and more than a fifth of the held
// leases, are due and unchanged at the second scan. The third scan waits for the length
// of the longest of these leases. Only leases that have not changed until then are freed.
func TestReapBrake(t *testing.T) {
	for _, c := range []struct {
		name      string
		live, due int
		braked    bool
	}{
		{"few", 1, 8, false},
		{"nine of ten", 1, 9, true},
		{"a fifth", 80, 20, false},
		{"more than a fifth", 80, 21, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(300)
				var held []protocol.Lease
				for n := range c.due {
					ttl := 10 * time.Second
					if n == 1 {
						ttl = 5 * time.Minute
					}
					held = append(held, fixture.Hold(t, s, n, time.Now(), ttl))
				}
				for n := range c.live {
					fixture.Hold(t, s, c.due+n, time.Now(), 10*time.Hour)
				}
				fixture.Wait(9*time.Minute + 15*time.Second)
				fixture.Hold(t, s, 299, time.Now(), 10*time.Second) // due from the second scan on
				fixture.Wait(45 * time.Second)
				if r, _ := reap(t, t.Context(), s); r.Braked || len(r.Due) != c.due || len(r.Freed) != 0 {
					t.Errorf("the first look: %+v", r)
				}
				fixture.Wait(time.Minute)
				written := s.Writes()
				r, log := reap(t, t.Context(), s)
				if !c.braked {
					if len(r.Freed) != c.due || r.Braked || log != "" || s.Writes()-written != c.due {
						t.Errorf("the second look: %+v with %d writes, log %q", r, s.Writes()-written, log)
					}
					return
				}
				if !r.Braked || len(r.Freed) != 0 || s.Writes() != written || time.Until(r.NextLook) != 5*time.Minute+10*time.Second || !strings.Contains(log, fmt.Sprint("due=", c.due)) {
					t.Errorf("the second look: %+v, the next one in %v, log %q", r, time.Until(r.NextLook), log)
				}
				if m := remembered(t, s); m.Look == nil || !m.Look.Braked {
					t.Errorf("the memory does not show the brake: %+v", m)
				}
				// One holder comes back between the scans, but its lease still looks expired.
				if res, err := s.Write(context.Background(), renew(held[0], time.Now().Add(-10*time.Minute))); err != nil || !res.Applied {
					t.Errorf("renewal: %+v, %v", res, err)
				}
				fixture.Wait(5 * time.Minute)
				if r, _ = reap(t, t.Context(), s); len(r.Freed) != 0 {
					t.Errorf("before the longest lease has passed: freed %v", r.Freed)
				}
				fixture.Wait(10 * time.Second)
				written = s.Writes()
				// A candidate that has changed, or is not due, costs no write.
				if r, _ = reap(t, t.Context(), s); len(r.Freed) != c.due-1 || slices.Contains(r.Freed, 0) || slices.Contains(r.Freed, 299) || s.Writes()-written != c.due-1 {
					t.Errorf("the third look: %+v with %d writes, want all freed but node ID 0, and 299, which two looks have not seen before", r, s.Writes()-written)
				}
			})
		})
	}
}

// Several reapers run at the same time, while claimants take node IDs. Each due lease is
// freed once, by one of the reapers, and no new lease is freed.
func TestReapTogether(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		seeded(t, s, 40, 0, numbers(40)...)
		for n := range 40 {
			ttl := time.Hour
			if n < 8 {
				ttl = 15 * time.Second
			}
			fixture.Hold(t, s, n, time.Now().Add(-2*time.Minute), ttl)
		}
		var mu sync.Mutex
		var freed []int
		taken := through{Store: s, before: func(w protocol.Write) error {
			if r, ok := w.(protocol.Reap); ok && r.NodeID == 5 { // taken after the last scan
				mu.Lock()
				defer mu.Unlock()
				if l, err := s.Get(t.Context(), "orders", 5); err == nil && l.Version == 1 {
					fixture.Hold(t, s, 5, time.Now(), time.Hour)
				}
			}
			return nil
		}}
		for range 2 { // scans
			fixture.Together(4, func(int) {
				r, err := leasepool.Open(taken, "orders").Reap(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				freed = append(freed, r.Freed...)
			})
			if remembered(t, s).Look != nil {
				age(t, s, time.Minute)
			}
		}
		slices.Sort(freed)
		if !slices.Equal(freed, []int{0, 1, 2, 3, 4, 6, 7}) {
			t.Errorf("freed %v, want 0 to 7 without 5", freed)
		}
	})
}
