package lease_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// All problems of a Config are reported at once, each with its value and remedy.
func TestConfigProblems(t *testing.T) {
	s := leasetest.NewMemory("p", 1)
	for _, c := range []struct {
		name string
		cfg  lease.Config
		want []string
	}{
		{"nothing", lease.Config{}, []string{"Table is empty", "NODELEASE_TABLE", "Pool is empty", "NODELEASE_POOL"}},
		{"names", lease.Config{Table: "a!", Pool: "a#0"}, []string{`table "a!"`, `pool name "a#0"`}},
		{"negative", lease.Config{Store: s, Pool: "p", TTL: -time.Second, Wait: -1}, []string{"TTL -1s is negative", "Wait -1ns"}},
		{"microseconds", lease.Config{Store: s, Pool: "p", TTL: 7 * time.Second, Guard: 1500 * time.Microsecond}, []string{"Guard 1.5ms", "whole milliseconds"}},
		{"too short", lease.Config{Store: s, Pool: "p", TTL: 900 * time.Millisecond}, []string{"TTL 900ms"}},
		{"too long", lease.Config{Store: s, Pool: "p", TTL: 25 * time.Hour}, []string{"TTL 25h"}},
		{"short without guards", lease.Config{Store: s, Pool: "p", TTL: 3 * time.Second}, []string{"set Guard and ClaimGuard"}},
		{"renews too late", lease.Config{Store: s, Pool: "p", TTL: 10 * time.Second, RenewEvery: 6 * time.Second}, []string{"RenewEvery 6s is more than half of TTL 10s"}},
		{"no time to renew", lease.Config{Store: s, Pool: "p", TTL: 10 * time.Second, RenewEvery: 5 * time.Second, Guard: 5 * time.Second}, []string{"Guard 5s leaves no time"}},
		{"reserves too little", lease.Config{Store: s, Pool: "p", TTL: 10 * time.Second, Reserve: 10 * time.Second}, []string{"Reserve 10s", "11s"}},
		{"no room for jitter", lease.Config{Store: s, Pool: "p", TTL: 10 * time.Second, RenewEvery: 5 * time.Second, Guard: 4001 * time.Millisecond}, []string{"Guard 4.001s leaves no time", "4s at most"}},
		{"claim guard", lease.Config{Store: s, Pool: "p", TTL: 10 * time.Second, ClaimGuard: 10 * time.Second}, []string{"ClaimGuard 10s"}},
		{"policies", lease.Config{Store: s, Pool: "p", OnExpiry: 7, OnLost: 8}, []string{"OnExpiry 7", "OnLost 8"}},
		{"too much text", lease.Config{Store: s, Pool: "p", Task: strings.Repeat("x", 500), Metadata: map[string]string{"zone": "eu-west-1a", "": "v"}}, []string{"Metadata have 515 bytes", "empty name"}},
		{"all at once", lease.Config{Pool: "p q", TTL: -1, Wait: -1, OnLost: 9}, []string{"Table is empty", `"p q"`, "TTL -1ns", "Wait", "OnLost 9"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := lease.Start(t.Context(), c.cfg)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in:\n%v", want, err)
				}
			}
		})
	}
}

func TestConfigFromEnvironment(t *testing.T) {
	t.Setenv("NODELEASE_POOL", "p")
	cfg := fixture.Config(leasetest.NewMemory("p", 1))
	cfg.Pool = ""
	a, err := lease.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// Configurations with any allowed TTL, from 1 s to 24 h, work.
func TestTTLs(t *testing.T) {
	for _, cfg := range []lease.Config{
		{TTL: time.Second, Guard: 200 * time.Millisecond, ClaimGuard: 100 * time.Millisecond},
		{TTL: time.Hour},
		{TTL: 24 * time.Hour, Reserve: 48 * time.Hour},
	} {
		t.Run(cfg.TTL.String(), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				c := fixture.Config(leasetest.NewMemory("orders", 1))
				c.TTL, c.Guard, c.ClaimGuard, c.Reserve = cfg.TTL, cfg.Guard, cfg.ClaimGuard, cfg.Reserve
				a := fixture.Start(t, c)
				g := fixture.IDs(t, a)
				for range 10 {
					fixture.Wait(cfg.TTL)
					if _, err := a.Lease(); err != nil {
						t.Fatal(err)
					}
					if _, err := g.Next(); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// Durations at the limits of their type either cause errors or work as specified. None of
// them overflows.
func TestExtremeDurations(t *testing.T) {
	fields := map[string]func(*lease.Config) *time.Duration{
		"TTL": func(c *lease.Config) *time.Duration { return &c.TTL }, "RenewEvery": func(c *lease.Config) *time.Duration { return &c.RenewEvery },
		"Guard": func(c *lease.Config) *time.Duration { return &c.Guard }, "ClaimGuard": func(c *lease.Config) *time.Duration { return &c.ClaimGuard },
		"Reserve": func(c *lease.Config) *time.Duration { return &c.Reserve }, "Wait": func(c *lease.Config) *time.Duration { return &c.Wait },
		"MaxTTL": func(c *lease.Config) *time.Duration { return &c.MaxTTL }, "MaxReserve": func(c *lease.Config) *time.Duration { return &c.MaxReserve },
	}
	const longest = math.MaxInt64 / time.Millisecond * time.Millisecond
	for name, field := range fields {
		for _, d := range []time.Duration{math.MinInt64, -1, -time.Millisecond, math.MaxInt64, longest} {
			fixture.Virtual(t, func(t *testing.T) {
				cfg := fixture.Config(fixture.NewNetwork(1))
				*field(&cfg) = d
				a, err := lease.Start(t.Context(), cfg)
				if want := name == "Wait" && d > 0; (err == nil) != want {
					t.Errorf("%s %v: got %v, want it taken: %v", name, d, err, want)
				}
				if a != nil {
					_ = a.Close()
				}
				if name != "TTL" {
					return
				}
				o, err := lease.NewOnDemand(cfg)
				if o != nil || err == nil || strings.Contains(err.Error(), "Max") {
					t.Errorf("on demand, TTL %v: got %v, want it refused by its name alone", d, err)
				}
			})
		}
	}
}
