package leasepool_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Stats reports how many holders could make IDs without DynamoDB, and for how long. It
// uses their reservations and not the lengths of their leases. On-demand holders and
// expired leases are not counted.
func TestOutageInStats(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := seeded(t, s, 10, 0)
		if got, err := p.Stats(t.Context()); err != nil || got.Outage != (leasepool.Outage{}) {
			t.Errorf("nobody holds: got %+v, %v", got.Outage, err)
		}
		now := time.Now()
		hold := func(node int, at time.Time, ttl, reserve time.Duration, onDemand bool) {
			t.Helper()
			res, err := s.Write(t.Context(), protocol.Claim{
				Key: protocol.Key{Pool: "orders", NodeID: node}, Session: "s", At: now, ClaimGuard: time.Second, TTL: ttl,
				ExpiresAt: at.Add(ttl), ReservedUntil: at.Add(reserve), OnDemand: onDemand,
			})
			if err != nil || !res.Applied {
				t.Fatal(res, err)
			}
		}
		hold(0, now, 15*time.Minute, 4*time.Hour, false)
		hold(1, now, time.Minute, 8*time.Minute, false)
		hold(2, now, time.Minute, 5*time.Minute+2*time.Second, false) // below 5 min once the guards are subtracted
		hold(3, now, 15*time.Minute, 2*time.Hour, false)
		hold(4, now, 10*time.Second, 11*time.Second, true)
		hold(5, now.Add(-time.Hour), 15*time.Minute, 2*time.Hour, false) // expired
		got, err := p.Stats(t.Context())
		if o := got.Outage; err != nil || o.Holders != 4 || o.Hour != 2 || o.FiveMinutes != 3 || o.FirstStops.Sub(now).Round(time.Second) != 4*time.Minute+59*time.Second {
			t.Errorf("got %+v, %v", o, err)
		}
	})
}

func TestOutageInWords(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for want, until := range map[string][]time.Duration{
		"": nil,
		"If DynamoDB went away now: 0 holders make IDs for at least 1 h, 0 for at least 5 min, the first stops in 12 s.":       {13 * time.Second, 12 * time.Second},
		"If DynamoDB went away now: 0 holders make IDs for at least 1 h, 0 for at least 5 min, the first stops now.":           {-time.Second},
		"If DynamoDB went away now: 1 holder makes IDs for at least 1 h, 3 for at least 5 min, the first stops in 5 min 1 s.":  {time.Hour, 301 * time.Second, 59 * time.Minute},
		"If DynamoDB went away now: 2 holders make IDs for at least 1 h, 2 for at least 5 min, the first stops in 3 h 58 min.": {4 * time.Hour, 3*time.Hour + 58*time.Minute + 59*time.Second},
	} {
		var o leasepool.Outage
		for _, d := range until {
			o.Add(now.Add(d), now)
		}
		if got := o.Text(now); got != want {
			t.Errorf("%v: got %q, want %q", until, got, want)
		}
	}
}
