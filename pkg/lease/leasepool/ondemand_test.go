package leasepool_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// The leases of on-demand holders expire by design. The reaper leaves these leases alone,
// they trigger neither the brake nor the alarm, and their node IDs are counted as free.
func TestOnDemandHoldersAreLeftAlone(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 64)
		for node := range 60 {
			now := time.Now()
			_, err := s.Write(t.Context(), protocol.Claim{
				Key: protocol.Key{Pool: "orders", NodeID: node}, Session: "session", Task: "lambda", OnDemand: node > 0, At: now.Add(time.Second), ClaimGuard: time.Second,
				TTL: 5 * time.Minute, ExpiresAt: now.Add(5 * time.Minute), ReservedUntil: now.Add(5*time.Minute + time.Second),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		stats := func() leasepool.Stats {
			t.Helper()
			got, err := leasepool.Open(s, "orders").Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := stats(); got.Held != 60 || got.OnDemand != 59 {
			t.Errorf("got %d held, %d of them on demand, want 60 and 59", got.Held, got.OnDemand)
		}
		fixture.Wait(10 * time.Minute)
		for range 5 {
			r, _ := reap(t, t.Context(), s)
			if r.Braked || len(r.Due) > 1 || r.Held > 1 {
				t.Errorf("got %d held, %d due, braked %v, want the one that has a renewal loop", r.Held, len(r.Due), r.Braked)
			}
			fixture.Wait(2 * time.Minute)
		}
		if got := stats(); got.Expired != 0 || got.Free != 64 || got.OnDemand != 0 {
			t.Errorf("after their expiry: got %d expired and %d free, want 0 and 64", got.Expired, got.Free)
		}
	})
}
