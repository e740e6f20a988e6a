package sim

import (
	"flag"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/history"
	"github.com/nodelease/nodelease/pkg/lease"
)

var (
	firstSeed  = flag.Uint64("seed", 1, "first seed")
	seeds      = flag.Int("seeds", 4, "how many seeds")
	taskHours  = flag.Float64("hours", 8, "hours of tasks in each seed")
	recordFile = flag.String("record", "", "a file that remembers which seeds are done")
	commit     = flag.String("commit", "", "what the record says was run")
)

// TestWorld lives through a few worlds.
//
//	go test ./internal/sim -run TestWorld -seeds 16 -hours 64
func TestWorld(t *testing.T) {
	if testing.Short() { // under the race detector
		*seeds, *taskHours = min(*seeds, 1), min(*taskHours, 1)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // it allocates a lot and keeps little
	began := time.Now()
	if testing.Short() {
		*seeds, *taskHours = min(*seeds, 2), min(*taskHours, 2)
	}
	record := openRecord(t, *recordFile)
	next := make(chan uint64)
	go func() {
		defer close(next)
		for i := range *seeds {
			next <- *firstSeed + uint64(i)
		}
	}()
	var mu sync.Mutex
	total := newCounts()
	t.Run("seeds", func(t *testing.T) {
		for range 2 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := range next {
					if t.Failed() || record.has(seed) {
						continue
					}
					c := live(t, NewPlan(seed, *taskHours))
					mu.Lock()
					total.Add(c)
					record.add(t, seed, c)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("seeds %d to %d, %v: %v", *firstSeed, *firstSeed+uint64(*seeds)-1, time.Since(began).Round(time.Second), total)
}

// live lives through one plan.
func live(t *testing.T, p Plan) (c Counts) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w, counts, err := Run(p)
		if err != nil {
			t.Errorf("%v\nrepeat with: go test ./internal/sim -run TestWorld -seed %d -seeds 1 -hours %v\n%s", err, p.Seed, *taskHours, w.History.Failure())
		}
		c = counts
	})
	t.Logf("seed %d, %v: %v: %v", p.Seed, time.Since(began).Round(time.Millisecond), p, c)
	return c
}

// Stores that do not keep their word, and agents that they deceive: the judge
// notices, and its history is judged the same again.
func TestCheatingStores(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for name, c := range map[string]struct {
		lies []string // old, new, old, new, …
		want string
	}{
		"it grants what is held": {[]string{
			"expires_at < :expired_before", ":expired_before = :expired_before", "reserved_until BETWEEN :zero AND :reserved_by", ":zero < :reserved_by",
		}, "before it begins"},
		"it forgets what is reserved":  {[]string{"not_before = reserved_until", "not_before = :zero"}, "was reserved"},
		"it lets late renewals land":   {[]string{"renewal < :renewal", ":renewal = :renewal"}, "landed after renewal"},
		"it does not count versions":   {[]string{"version = version + :one", "version = if_not_exists(version, :one)"}, "changed the version"},
		"its releases forget the last": {[]string{"SET reserved_until = :reserved_until REMOVE", "SET reserved_until = if_not_exists(not_before, :reserved_until) REMOVE"}, "was stamped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := NewPlan(4, 40) // bounded
				p.Lease.TTL, p.Hours, p.Numbers = lease.DefaultTTL, 2*time.Hour, p.Tasks-2
				liar := strings.NewReplacer(c.lies...)
				p.Tamper = func(body []byte) []byte { return []byte(liar.Replace(string(body))) }
				w, counts, err := Run(p)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want %q: %v", err, c.want, counts)
				}
				again := replay(t, &w.History)
				if w.History.Err() != nil && (again == nil || again.Error() != err.Error()) {
					t.Errorf("judged again: %v, was %v", again, err)
				}
			})
		})
	}
}

// The history of a world in which all went well is judged well again.
func TestHistoryReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, err := Run(NewPlan(12, 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := replay(t, &w.History); err != nil {
			t.Error(err)
		}
	})
}

func replay(t *testing.T, r *history.Recorder) error {
	path, err := r.Save()
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := history.Replay(f)
	if n != r.Len() {
		t.Errorf("%d events of %d", n, r.Len())
	}
	return err
}
