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
	until      = flag.Float64("until", 0, "go on with more seeds until agents have lived so many hours, those of -record included")
	recordFile = flag.String("record", "", "a file that remembers which seeds are done")
	commit     = flag.String("commit", "", "what the record says was run")
)

// TestWorld lives through a few worlds. An hour that an agent lives is one of
// virtual time, from its start to its end, in which the faults of its world befall
// it: the last minutes of a world, in which they have ended, count too.
//
//	go test ./internal/sim -run TestWorld$ -seeds 16 -hours 64
//	go test ./internal/sim -run TestWorld$ -timeout 24h -until 10000 -hours 30 -record done.tsv
func TestWorld(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // it allocates a lot and keeps little
	began := time.Now()
	if testing.Short() { // under the race detector
		*seeds, *taskHours = min(*seeds, 1), min(*taskHours, 1)
	}
	record := openRecord(t, *recordFile)
	var mu sync.Mutex
	total, lived := newCounts(), record.hours
	seed := *firstSeed
	next := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		for record.has(seed) {
			seed++
		}
		if t.Failed() || *until > 0 && lived >= *until || *until == 0 && seed >= *firstSeed+uint64(*seeds) {
			return 0, false
		}
		seed++
		return seed - 1, true
	}
	t.Run("seeds", func(t *testing.T) {
		for range 2 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed, ok := next(); ok && !t.Failed(); seed, ok = next() {
					c := live(t, NewPlan(seed, *taskHours))
					mu.Lock()
					total.Add(c)
					lived += c.Lived.Hours()
					record.add(t, seed, c)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("seeds %d to %d, %v: %v", *firstSeed, seed-1, time.Since(began).Round(time.Second), total)
	if record.path != "" {
		t.Logf("%.0f agent hours with those of %s", lived, record.path)
	}
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
		t.Skip("stores that lie and worlds that are deceived take long: run without -short")
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
