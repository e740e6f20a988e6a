package tenure

import (
	"crypto/sha256"
	"flag"
	"os"
	"sync"
	"testing"
	"time"
)

var (
	modelSeed  = flag.Uint64("seed", 1, "first seed of the model")
	modelSeeds = flag.Int("seeds", 60, "how many seeds the model runs")
	modelSteps = flag.Int("steps", 20_000, "steps of each seed")
)

// TestModel runs the model of the protocol; see world.
//
//	go test ./internal/tenure -run TestModel$ -seeds 500 -steps 20000
func TestModel(t *testing.T) {
	if testing.Short() { // under the race detector, which has nothing to check in one goroutine
		*modelSeeds = min(*modelSeeds, 4)
	}
	if testing.Short() {
		*modelSeeds = min(*modelSeeds, 10)
	}
	var mu sync.Mutex
	var total counts
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for lane := range 4 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := lane; i < *modelSeeds && !t.Failed(); i += 4 {
					w := newWorld(*modelSeed + uint64(i))
					if err := w.run(*modelSteps); err != nil {
						t.Errorf("repeat with: go test ./internal/tenure -run TestModel$ -seed %d -seeds 1 -steps %d\n%v\n%s", *modelSeed+uint64(i), *modelSteps, err, w.rec.Failure())
					}
					mu.Lock()
					total.add(w.count)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("seeds %d to %d, %v: %v", *modelSeed, *modelSeed+uint64(*modelSeeds)-1, time.Since(began).Round(time.Millisecond), total)
	if c := total; *modelSeeds >= 60 && !t.Failed() && min(c.claims, c.renewals, c.resumed, c.lost, c.stale*10, c.landed, c.released, c.abandoned, c.crashes, c.nested, c.ids, c.freed, c.widened*10, c.capped, c.grown, c.shrunk, c.hinted) < 100 {
		t.Errorf("a world in which too little happened: %v", total)
	}
}

// The same seed leads to the same history, byte for byte.
func TestModelIsRepeatable(t *testing.T) {
	history := func(seed uint64) (sum [sha256.Size]byte, events int) {
		w := newWorld(seed)
		if err := w.run(3000); err != nil {
			t.Fatal(err)
		}
		path, err := w.rec.Save()
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(text), w.rec.Len()
	}
	total := 0
	for seed := range uint64(8) {
		first, n := history(seed)
		if second, m := history(seed); first != second || n != m {
			t.Errorf("seed %d: %d and %d events, %x and %x", seed, n, m, first[:4], second[:4])
		}
		total += n
	}
	if total < 1000 { // while all node IDs rest, little happens
		t.Errorf("%d events, too few to compare", total)
	}
}

// With clocks that are off by more than the guards tolerate, the model finds two processes
// that believe they hold one node ID. So the bound that the other tests keep to is needed,
// and tight.
func TestModelNeedsTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("it looks for one seed among many: run without -short")
	}
	for seed := uint64(1); seed < 2000; seed++ {
		w := newWorld(seed)
		w.epsilon += 10 * time.Millisecond
		if err := w.run(*modelSteps); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("no two believers, though clocks were 10 ms beyond the bound")
}

// If a confirmation is trusted with the newest requested length, the model finds two
// processes that believe they hold one node ID. So a confirmation must be trusted only
// with the length of its own attempt.
func TestModelNeedsTheOwnLength(t *testing.T) {
	if testing.Short() {
		t.Skip("it looks for one seed among many: run without -short")
	}
	for seed := uint64(1); seed < 2000; seed++ {
		w := newWorld(seed)
		if w.newest = true; !w.grows {
			continue
		}
		if err := w.run(*modelSteps); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("no two believers, though confirmations were trusted with the newest length")
}
