package demo

import (
	"math/rand/v2"
	"testing"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// The set is exact: it agrees with a map of IDs.
func TestSeen(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	exact, plain := seen{}, map[snowflake.ID]bool{}
	for range 2000 {
		ids := make([]snowflake.ID, rng.IntN(50))
		for i := range ids {
			ids[i] = snowflake.ID(rng.IntN(1<<16))<<40 | snowflake.ID(rng.IntN(64)) // many IDs share a word
			if i > 0 && rng.IntN(2) == 0 {
				ids[i] = ids[i-1] + 1
			}
		}
		want := 0
		for _, id := range ids {
			if plain[id] {
				want++
			}
			plain[id] = true
		}
		if got := exact.add(ids); got != want {
			t.Fatalf("found %d duplicates, want %d", got, want)
		}
	}
}

func BenchmarkSeen(b *testing.B) {
	s, next := seen{}, snowflake.ID(0)
	ids := make([]snowflake.ID, batchSize)
	for b.Loop() {
		next += 1 << 12
		for i := range ids {
			ids[i] = next + snowflake.ID(i)
		}
		s.add(ids)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batchSize, "ns/ID")
}
