package growth

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// reads counts the reads of the pool's item.
type reads struct {
	*fixture.Network
	items atomic.Int64
}

func (r *reads) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	r.items.Add(1)
	return r.Network.PoolItem(ctx, pool)
}

// The modelled fleet sends as many requests as a fleet of real agents does: while leases grow, while
// the pool is full for half an hour, and afterwards.
func TestPaperIsLikeRealAgents(t *testing.T) {
	t.Parallel()
	const holders, size = 40, 256
	spans := []time.Duration{4 * time.Hour, 30 * time.Minute, 3 * time.Hour}
	measured := func(i int, at time.Time) protocol.Measured {
		held := holders
		if i == 1 {
			held = size
		}
		return protocol.Measured{Held: held, At: at, Valid: 10 * time.Minute}
	}
	var paper [][2]float64 // renewals and reads of each span
	f := fleet(t, Config{Size: size, Expect: holders, Timings: grows(), Seed: 5})
	f.Start(holders, 0)
	f.Run(0)
	f.Take()
	now := time.Duration(0)
	for i, span := range spans {
		for end := now + span; now < end; now += time.Minute {
			f.measured(f.pool.Measured, measured(i, f.wall()))
			f.Run(now + time.Minute)
		}
		s := f.Take()
		if s.Counts > 0 {
			t.Fatalf("%d counts, want none of a pool that is measured each minute", s.Counts)
		}
		paper = append(paper, [2]float64{float64(s.Renewals), s.Units / itemUnits * 2})
	}
	fixture.Virtual(t, func(t *testing.T) {
		s := &reads{Network: fixture.NewNetwork(size)}
		measure := func(i int) {
			p, err := s.Network.PoolItem(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Network.WritePool(t.Context(), protocol.Measure{Pool: "orders", Seen: p.Measured, Measured: measured(i, time.Now())}); err != nil {
				t.Fatal(err)
			}
		}
		measure(0)
		for range holders {
			cfg := fixture.Config(s)
			cfg.MaxTTL = 15 * time.Minute
			g, err := snowflake.New(fixture.Start(t, cfg))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Next(); err != nil {
				t.Fatal(err)
			}
		}
		renewed, read := len(fixture.WritesOf[protocol.Renew](s.Network)), s.items.Load()
		for i, span := range spans {
			for end := time.Now().Add(span); time.Now().Before(end); {
				measure(i)
				fixture.Wait(time.Minute)
			}
			all, items := len(fixture.WritesOf[protocol.Renew](s.Network)), s.items.Load()
			for j, got := range [2]float64{float64(all - renewed), float64(items - read)} {
				what := [2]string{"renewals", "reads"}[j]
				t.Logf("span %d: %v %s of real agents, %v on paper", i, got, what, paper[i][j])
				// Real agents draw new random times in each run. Over 30 runs, the standard deviations
				// of the three spans' sums were 0.1, 2.7 and 4.1 %.
				if math.Abs(got-paper[i][j]) > got*[]float64{0.1, 0.25, 0.25}[i] {
					t.Errorf("span %d: got %v %s on paper, want %v as of real agents", i, paper[i][j], what, got)
				}
			}
			renewed, read = all, items
		}
	})
}
