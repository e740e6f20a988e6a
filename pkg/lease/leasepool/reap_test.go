package leasepool_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/fixture"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

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

// A lease is reaped when it has been expired for more than a minute, and keeps
// what the next holder must know.
func TestReap(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, corrupt func(int)) {
		p := seeded(t, s, 8, 0, 1, 2)
		now := time.Now()
		old := fixture.Hold(t, s, 1, now.Add(-90*time.Second), 15*time.Second) // expired for 75 s
		fixture.Hold(t, s, 2, now.Add(-60*time.Second), 15*time.Second)        // for 45 s
		fixture.Hold(t, s, 3, now, 15*time.Second)
		fixture.Hold(t, s, 4, now.Add(24*time.Hour-15*time.Second), 15*time.Second) // by a clock that is ahead
		if corrupt != nil {
			corrupt(5)
		}
		look, err := p.Due(t.Context())
		if err != nil || !slices.Equal(look.Due, []int{1}) || len(look.Freed) != 0 || look.Held != 4 || !slices.Equal(look.Stuck, []int{4}) {
			t.Errorf("due: %+v, %v", look, err)
		}
		r, log := reap(t, t.Context(), s)
		if !slices.Equal(r.Freed, []int{1}) || r.Braked || log != "" || (r.Corrupt[5] != "") != (corrupt != nil) {
			t.Errorf("reap: %+v, log %q", r, log)
		}
		leases, _ := all(t, p)
		if l := leases[1]; l.Holder != "" || !l.ExpiresAt.IsZero() || l.Version != old.Version || !l.ReservedUntil.Equal(old.ReservedUntil) {
			t.Errorf("node 1 is %+v after %+v", l, old)
		}
		if leases[2].Holder == "" || leases[3].Holder == "" {
			t.Errorf("freed too early: %+v, %+v", leases[2], leases[3])
		}
	})
}

func numbers(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// The minute is over after 60 s, not before.
func TestReapGrace(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 1)
		fixture.Hold(t, s, 0, time.Now(), 15*time.Second)
		fixture.Wait(75 * time.Second)
		if r, _ := reap(t, t.Context(), s); len(r.Due) != 0 {
			t.Errorf("due after 60 s sharp: %+v", r)
		}
		fixture.Wait(time.Millisecond)
		if r, _ := reap(t, t.Context(), s); len(r.Freed) != 1 {
			t.Errorf("not due after 60 s: %+v", r)
		}
	})
}

// When more than 8 and more than a fifth of the held leases are due at once,
// Reap waits for the longest of their terms and frees only what has not changed.
func TestReapBrake(t *testing.T) {
	for _, c := range []struct {
		name      string
		live, due int
		braked    bool
	}{
		{"few", 0, 8, false},
		{"nine of nine", 0, 9, true},
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
						ttl = 30 * time.Second
					}
					held = append(held, fixture.Hold(t, s, n, time.Now(), ttl))
				}
				fixture.Wait(2 * time.Minute)
				for n := range c.live {
					fixture.Hold(t, s, c.due+n, time.Now(), time.Hour)
				}
				start := time.Now()
				// After an outage, or before a reaper whose clock is ahead: one holder
				// renews while Reap waits, and still looks expired to it.
				time.AfterFunc(20*time.Second, func() {
					if res, err := s.Write(context.Background(), renew(held[0], start.Add(-2*time.Minute))); err != nil || res.Applied != c.braked {
						t.Errorf("renewal: %+v, %v", res, err)
					}
				})
				written := s.Writes()
				r, log := reap(t, t.Context(), s)
				waited, want := time.Since(start), c.due
				if c.braked {
					want--
					written++ // the renewal
				}
				// What has changed, and what is not due, costs no write.
				if written = s.Writes() - written; written != want {
					t.Errorf("%d writes, want %d", written, want)
				}
				if r.Braked != c.braked || len(r.Due) != c.due || len(r.Freed) != want || r.Held != c.live+c.due {
					t.Errorf("%+v", r)
				}
				if c.braked != (waited == 30*time.Second) || !c.braked && waited != 0 {
					t.Errorf("waited %v", waited)
				}
				if c.braked != strings.Contains(log, "wait=30s enough_time=true") {
					t.Errorf("log %q", log)
				}
				if l, _ := s.Get(t.Context(), "orders", 0); (l.Holder != "") != c.braked {
					t.Errorf("node 0, renewed meanwhile: %+v", l)
				}
			})
		})
	}
}

// Without the time to wait for, nothing is freed.
func TestReapBrakeWithoutTime(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 20)
		for n := range 20 {
			fixture.Hold(t, s, n, time.Now(), 15*time.Second)
		}
		fixture.Wait(2 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		start := time.Now()
		r, log := reap(t, ctx, s)
		if !r.Braked || len(r.Due) != 20 || len(r.Freed) != 0 || time.Since(start) != 0 || !strings.Contains(log, "enough_time=false") {
			t.Errorf("%+v after %v, log %q", r, time.Since(start), log)
		}

		// Canceled while it waits.
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		p := leasepool.Open(s, "orders")
		p.Logger = slog.New(slog.DiscardHandler)
		if r, err := p.Reap(ctx); err == nil || len(r.Freed) != 0 {
			t.Errorf("canceled: %+v, %v", r, err)
		}
	})
}

// Reapers at the same time, and holders that take the numbers meanwhile: each is
// freed once, and nobody's new lease.
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
			if r, ok := w.(protocol.Reap); ok && r.NodeID == 5 { // taken after the last look
				mu.Lock()
				defer mu.Unlock()
				if l, err := s.Get(t.Context(), "orders", 5); err == nil && l.Version == 1 {
					fixture.Hold(t, s, 5, time.Now(), time.Hour)
				}
			}
			return nil
		}}
		fixture.Together(4, func(int) {
			r, err := leasepool.Open(taken, "orders").Reap(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			freed = append(freed, r.Freed...)
		})
		slices.Sort(freed)
		if !slices.Equal(freed, []int{0, 1, 2, 3, 4, 6, 7}) {
			t.Errorf("freed %v", freed)
		}
	})
}
