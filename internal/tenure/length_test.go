package tenure

import (
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func complete(t *testing.T, c Timings) Timings {
	t.Helper()
	if errs := c.Complete(); errs != nil {
		t.Fatal(errs)
	}
	return c
}

func TestLengthsFollowTheAge(t *testing.T) {
	plain := complete(t, Timings{MaxTTL: 15 * time.Minute})
	for _, c := range []struct {
		t              Timings
		age            time.Duration
		lease, reserve time.Duration
	}{
		{plain, 0, 15 * time.Second, 16 * time.Second},
		{plain, 32 * time.Second, 15 * time.Second, 16 * time.Second},
		{plain, 2 * time.Minute, 15 * time.Second, time.Minute},
		{plain, 150 * time.Second, 15 * time.Second, 75 * time.Second},
		{plain, 10 * time.Minute, time.Minute, 5 * time.Minute},
		{plain, 8 * time.Hour, 15 * time.Minute, 4 * time.Hour},
		{plain, 1000 * time.Hour, 15 * time.Minute, 4 * time.Hour},
		// A smaller MaxReserve also shortens the lease.
		{complete(t, Timings{MaxTTL: 15 * time.Minute, MaxReserve: time.Minute}), 8 * time.Hour, 59 * time.Second, time.Minute},
		{complete(t, Timings{MaxTTL: 15 * time.Minute, MaxReserve: 16 * time.Second}), 8 * time.Hour, 15 * time.Second, 16 * time.Second},
		// A configured Reserve is the least that is reserved.
		{complete(t, Timings{MaxTTL: 15 * time.Minute, Reserve: time.Minute}), 40 * time.Second, 15 * time.Second, time.Minute},
		// The default.
		{complete(t, Timings{}), 8 * time.Hour, 15 * time.Minute, 4 * time.Hour},
		// With MaxTTL = TTL the lease does not grow.
		{complete(t, Timings{MaxTTL: 15 * time.Second}), 8 * time.Hour, 15 * time.Second, 16 * time.Second},
		{complete(t, Timings{TTL: time.Hour}), 8 * time.Hour, time.Hour, time.Hour + time.Second},
		{plain, -time.Hour, 15 * time.Second, 16 * time.Second},
	} {
		if got := c.t.Grown(c.age); got != (Length{c.lease, c.reserve}) {
			t.Errorf("%+v at the age of %v: %v, want %v and %v", c.t, c.age, got, c.lease, c.reserve)
		}
	}
}

// At any age, a lease is no longer than its reservation minus the claim guard.
func TestNoLeaseIsLongerThanItsReserve(t *testing.T) {
	for _, c := range []Timings{{}, {MaxTTL: 15 * time.Minute}, {TTL: 5 * time.Second, MaxTTL: 15 * time.Minute}, {MaxTTL: time.Hour, MaxReserve: time.Minute}, {MaxTTL: time.Hour, Reserve: 10 * time.Minute}, {TTL: time.Minute, MaxTTL: 24 * time.Hour, MaxReserve: 24 * time.Hour}} {
		c = complete(t, c)
		for age := time.Duration(0); age < 100*time.Hour; age = age*11/10 + time.Millisecond {
			l := c.Grown(age)
			if l.Lease > l.Reserve-c.ClaimGuard || l.Lease < c.TTL || l.Reserve < c.Reserve || l.Lease > c.MaxTTL || l.Reserve > c.MaxReserve {
				t.Fatalf("%+v at the age of %v: %v", c, age, l)
			}
		}
	}
}

// An attempt shortens the requested length if its reserve or an open widening requires it.
func TestAttemptsCutTheLease(t *testing.T) {
	w0 := time.UnixMilli(1_000_000).Add(300 * time.Microsecond)
	for name, c := range map[string]struct {
		want  Length
		until time.Duration // cap
		lease time.Duration
	}{
		"as asked for":        {Length{time.Minute, 5 * time.Minute}, 0, time.Minute},
		"beyond its reserve":  {Length{time.Hour, time.Minute}, 0, 59 * time.Second},
		"beyond the cap":      {Length{time.Minute, 5 * time.Minute}, 30 * time.Second, 29 * time.Second},
		"the cap is too near": {Length{time.Minute, 5 * time.Minute}, 10 * time.Second, 15 * time.Second},
	} {
		tm := newTestTerm(t)
		p := protocol.PoolItem{}
		if c.until > 0 {
			p.Widening = protocol.Widening{Try: 1, From: time.UnixMilli(1_000_000 + 10_000).Add(c.until + time.Millisecond), State: protocol.WidenOpen}
		}
		at, ok := tm.Attempt(110*time.Second, w0.Add(10*time.Second), p, c.want)
		if !ok || at.Length.Lease != c.lease || at.Write.TTL != c.lease {
			t.Errorf("%s: %+v, want a lease of %v", name, at, c.lease)
		}
		trusted := at.M0 + at.Length.Lease - 110*time.Second
		if most := at.Write.ReservedUntil.Sub(w0.Add(10*time.Second)) - time.Second + time.Millisecond; trusted > most {
			t.Errorf("%s: trusted for %v, and its reservation allows %v", name, trusted, most)
		}
	}
}

// The deadline follows from the length of the confirmed attempt itself, and requested
// times never become earlier.
func TestTrustByTheOwnLength(t *testing.T) {
	tm := newTestTerm(t)
	w0 := time.UnixMilli(1_000_000)
	long, ok := tm.Attempt(105*time.Second, w0.Add(5*time.Second), protocol.PoolItem{}, Length{time.Minute, 5 * time.Minute})
	short, ok2 := tm.Attempt(110*time.Second, w0.Add(10*time.Second), protocol.PoolItem{}, shortOf(tm))
	if !ok || !ok2 || short.Write.ExpiresAt.Before(long.Write.ExpiresAt) || short.Write.ReservedUntil.Before(long.Write.ReservedUntil) {
		t.Fatalf("%+v, then %+v", long.Write, short.Write)
	}
	if short.Write.TTL != 15*time.Second || long.Write.TTL != time.Minute {
		t.Errorf("lease_ms says %v, then %v", long.Write.TTL, short.Write.TTL)
	}
	// The long attempt was lost. The short attempt, which requests the long one's expiry,
	// is trusted only for a short lease.
	l := tm.Lease
	l.ExpiresAt, l.ReservedUntil, l.Renewal = short.Write.ExpiresAt, short.Write.ReservedUntil, 2
	if tm.Confirmed(l, short.M0, short.Length); tm.Deadline != 123*time.Second {
		t.Errorf("trusted until %v after the short one, want 123 s", tm.Deadline)
	}
	if tm.Confirmed(l, long.M0, long.Length); tm.Deadline != 163*time.Second || tm.IDDeadline != 403*time.Second {
		t.Errorf("trusted until %v, IDs until %v after the long one, want 163 s and 403 s", tm.Deadline, tm.IDDeadline)
	}
	if tm.Confirmed(l, 120*time.Second, short.Length); tm.Deadline != 163*time.Second {
		t.Errorf("trusted until %v after another short one, want 163 s", tm.Deadline)
	}
	tm.Confirmed(l, 130*time.Second, long.Length)
	if tm.Confirmed(l, 140*time.Second, short.Length); tm.Deadline != 188*time.Second {
		t.Errorf("trusted until %v after a long and a short one, want 188 s", tm.Deadline)
	}
}

// A long span does not raise the ceiling of stamps.
func TestCeilingIsShort(t *testing.T) {
	tm := newTestTerm(t)
	w0 := time.UnixMilli(2_000_000)
	tm.Confirmed(tm.Lease, 200*time.Second, Length{15 * time.Minute, 4 * time.Hour})
	if c := tm.Ceiling(w0, 200*time.Second); !c.At.Equal(w0.Add(16*time.Second)) || c.Mono != 200*time.Second {
		t.Errorf("%+v, want 16 s above the clock", c)
	}
}

func TestPoolsThatGrowLess(t *testing.T) {
	c := complete(t, Timings{MaxTTL: 15 * time.Minute})
	for _, p := range []protocol.PoolItem{{Size: 1}, {Size: 8, ExcludeBelow: 7}} {
		if got := c.In(p); got.Grows() {
			t.Errorf("a pool of one grows: %+v", p)
		}
	}
	narrow := protocol.PoolItem{Size: 1024, ExistBelow: 256, Eras: snowflake.Eras{{From: time.UnixMilli(0), NodeBits: 9}}}
	if got := c.In(narrow).Grown(8 * time.Hour); got != (Length{59 * time.Second, time.Minute}) {
		t.Errorf("a narrow pool: %v, want 59 s and 1 m", got)
	}
	if got := c.In(protocol.PoolItem{Size: 1024}).Grown(8 * time.Hour); got != (Length{15 * time.Minute, 4 * time.Hour}) {
		t.Errorf("%v", got)
	}
}

func TestGrowthIsChecked(t *testing.T) {
	for want, c := range map[string]Timings{
		"MaxReserve 10s is below TTL + ClaimGuard = 16s":      {MaxReserve: 10 * time.Second},
		"MaxReserve 30s: use Reserve = 1m0s":                  {Reserve: time.Minute, MaxReserve: 30 * time.Second},
		"MaxTTL 10s: use TTL = 15s":                           {MaxTTL: 10 * time.Second},
		"MaxTTL 25h0m0s: use TTL = 15s":                       {MaxTTL: 25 * time.Hour},
		"MaxTTL -1s is negative":                              {MaxTTL: -time.Second},
		"MaxReserve 1h0m0.0005s: the table keeps whole milli": {MaxReserve: time.Hour + 500*time.Microsecond},
	} {
		var got []string
		for _, err := range c.Complete() {
			got = append(got, err.Error())
		}
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A holder whose lease may no longer grow waits until two thirds of a short lease are
// left.
func TestPostponed(t *testing.T) {
	tm := newTestTerm(t) // until 113 s
	if got := tm.Postponed(100 * time.Second); got != 0 {
		t.Errorf("a short lease waits for %v", got)
	}
	tm.Confirmed(tm.Lease, 100*time.Second, Length{5 * time.Minute, time.Hour}) // until 398 s
	for at, want := range map[time.Duration]time.Duration{200: 188, 380: 8, 384: 4, 387: 1, 388: 0, 397: 0, 500: 0} {
		if got := tm.Postponed(at * time.Second); got != want*time.Second {
			t.Errorf("at %d s it waits for %v, want %d s", at, got, want)
		}
	}
	// A confirmed short renewal does not end the trust in the long lease that is stored.
	if tm.Confirmed(tm.Lease, 380*time.Second, shortOf(tm)); tm.Postponed(382*time.Second) != 6*time.Second {
		t.Errorf("after a short one it waits for %v, want 6 s", tm.Postponed(382*time.Second))
	}
	if tm.Confirmed(tm.Lease, 390*time.Second, shortOf(tm)); tm.Postponed(391*time.Second) != 0 {
		t.Errorf("a short lease waits for %v", tm.Postponed(391*time.Second))
	}
}

// The first renewal comes at a random time of an interval, but no later than after two
// thirds of the time for which the lease is still trusted.
func TestFirstIn(t *testing.T) {
	c := complete(t, Timings{})
	for _, one := range []struct {
		lease, trust time.Duration
		share        float64
		want         time.Duration
	}{
		{15 * time.Second, 13 * time.Second, 0, 2500 * time.Millisecond},
		{15 * time.Second, 13 * time.Second, 0.5, 5 * time.Second},
		{15 * time.Second, 13 * time.Second, 1, 7500 * time.Millisecond},
		{15 * time.Minute, 15 * time.Minute, 0.5, 411875 * time.Millisecond},
		{15 * time.Minute, 14 * time.Minute, 1, 560 * time.Second},
		{15 * time.Second, 9 * time.Second, 1, 6 * time.Second},
		{15 * time.Second, 9 * time.Second, 0.5, 4250 * time.Millisecond},
		{15 * time.Second, 3 * time.Second, 0, 2 * time.Second},
		{15 * time.Second, -time.Second, 1, 0},
	} {
		if got := c.FirstIn(Length{Lease: one.lease}, one.trust, one.share); got != one.want {
			t.Errorf("%+v: %v", one, got)
		}
	}
}

func TestRenewIn(t *testing.T) {
	c := complete(t, Timings{})
	for lease, want := range map[time.Duration]time.Duration{15 * time.Second: 5 * time.Second, time.Minute: 27500 * time.Millisecond, 15 * time.Minute: 447500 * time.Millisecond, 0: 5 * time.Second} {
		if got := c.RenewIn(Length{Lease: lease}); got != want {
			t.Errorf("after %v: %v, want %v", lease, got, want)
		}
	}
}
