package naps_test

import (
	"context"
	"math"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// meter counts the cost of reads. An item costs one unit, a group of 256 leases costs 25,
// and a part of a group costs 2. Eventually consistent reads cost half as much.
type meter struct {
	*fixture.Network
	halves atomic.Int64 // the number of half units
}

func (m *meter) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	m.halves.Add(2)
	return m.Network.PoolItem(ctx, pool)
}

func (m *meter) Note(ctx context.Context, pool string) (protocol.Note, error) {
	m.halves.Add(1)
	return m.Network.Note(ctx, pool)
}

func (m *meter) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	m.halves.Add(50)
	return m.Network.Group(ctx, pool, n)
}

func (m *meter) EventualGroup(ctx context.Context, pool string, n int) (protocol.Group, error) {
	m.halves.Add(25)
	return m.Network.Group(ctx, pool, n)
}

func (m *meter) EventualPart(ctx context.Context, pool string, n int, part protocol.Part) (protocol.Group, error) {
	m.halves.Add(2)
	g, err := m.Network.Group(ctx, pool, n)
	return fixture.Part(g, part), err
}

// A million short workers a day cost what docs/cost.md states. The page's figures may differ
// from those of a run by 15 %: without Expect, a run costs 27 to 33 dollars, depending on
// how many groups were opened because of random first guesses.
func TestShortWorkersCost(t *testing.T) {
	const (
		perSecond = 1e6 / 86400
		month     = 730 * 3600 * perSecond // workers
	)
	page, err := os.ReadFile("../../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		release bool
		expect  int
		ttl     time.Duration
		most    float64 // dollars a month
	}{
		{"no", false, 0, 0, 100}, {"yes", true, 0, 0, 100}, {"no, `Expect` 21,845", false, 21845, 0, 45}, {"yes, `Expect` 21,845", true, 21845, 0, 45},
		{"no, `Expect` 21,845, leases of 30 s", false, 21845, 30 * time.Second, 25},
	} {
		name, release := c.name, c.release
		t.Run("release "+name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := &meter{Network: fixture.NewNetwork(32768)}
				if c.expect > 0 { // ExpectHolders opens all groups
					if res, err := s.Network.WritePool(t.Context(), protocol.ExpectHolders{Pool: "orders", Revision: 1, Expect: c.expect, OpenGroups: 128}); err != nil || !res.Applied {
						t.Fatal(res, err)
					}
				}
				agent := func() *lease.OnDemand {
					cfg := fixture.Config(s)
					cfg.TTL = c.ttl
					o, err := lease.NewOnDemand(cfg)
					if err != nil {
						t.Fatal(err)
					}
					return o
				}
				// The reaper function has seen a claim, so that starts read the pool's item only once.
				if g, err := agent().Generator(t.Context(), snowflake.WithLayout(snowflake.Wide16())); err != nil {
					t.Fatal(err)
				} else if _, err := g.Next(); err != nil {
					t.Fatal(err)
				}
				if _, err := leasepool.Open(s.Network, "orders").Reap(t.Context()); err != nil {
					t.Fatal(err)
				}
				workers, writes, halves := 0, 0, int64(0)
				begun := time.Now()
				for n := 0; time.Since(begun) < 20*time.Minute; n++ {
					if workers == 0 && time.Since(begun) > 10*time.Minute { // the number of leases no longer grows
						writes, halves = s.Writes(), s.halves.Load()
						workers = 1
					}
					o := agent()
					g, err := o.Generator(t.Context(), snowflake.WithLayout(snowflake.Wide16()))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := g.Next(); err != nil {
						t.Fatal(err)
					}
					if release {
						time.AfterFunc(10*time.Second, func() { _ = o.Close() }) // virtual time
					}
					time.Sleep(time.Duration(float64(time.Second) / perSecond)) // virtual time
					if workers > 0 {
						workers++
					}
				}
				fixture.Wait(0)
				w, r := float64(s.Writes()-writes)/float64(workers), float64(s.halves.Load()-halves)/2/float64(workers)
				dollars := month * (w*0.625 + r*0.125) / 1e6
				t.Logf("%d workers: %.2f writes and %.2f read units each: %.2f dollars a month for a million a day", workers, w, r, dollars)
				if dollars > c.most {
					t.Errorf("got %.2f dollars a month, want %g at most", dollars, c.most)
				}
				fixture.Wait(11 * time.Second)
				row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(name) + ` \|.* ([0-9.]+) \|$`).FindSubmatch(page)
				if row == nil {
					t.Fatalf("docs/cost.md has no row %q of short workers", name)
				}
				if said, _ := strconv.ParseFloat(string(row[1]), 64); math.Abs(said-dollars) > said*0.15 {
					t.Errorf("docs/cost.md: got %s dollars a month, want %.2f", row[1], dollars)
				}
			})
		})
	}
}
