package sim

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/lease"
)

var (
	firstSeed  = flag.Uint64("seed", 1, "first seed")
	seeds      = flag.Int("seeds", 4, "how many seeds")
	taskHours  = flag.Float64("hours", 2, "hours of tasks in each seed")
	until      = flag.Float64("until", 0, "go on with more seeds until agents have lived so many hours, those of -record included")
	recordFile = flag.String("record", "", "a file that remembers which seeds are done")
	partList   = flag.String("parts", "", "the parts that every world has, divided by commas, instead of a random mix")
	without    = flag.String("without", "", "the parts that no world has unless -parts names them")
	few        = flag.Bool("few", false, "each world has only two to six parts")
	ignore     = flag.String("ignore", "", "a pattern of broken promises that do not end a world, to find others")
	grown      = flag.Bool("grown", false, "only worlds of 24 hours with wild clocks in which leases grow")
	busy       = flag.Float64("busy", 0, "this share of the worlds is busy: see Plan.long")
	commit     = flag.String("commit", "", "what the record says was run")
)

// TestMain discards the logs of the Lambda functions, which use slog's default logger.
func TestMain(m *testing.M) {
	flag.Parse()
	slog.SetDefault(silent)
	os.Exit(m.Run())
}

// TestWorld runs a few worlds. The hours of an agent are the virtual time from its start to
// its end. They include the last minutes of a world, after the faults have ended.
//
//	go test ./proof/internal/sim -run TestWorld$ -seeds 16 -hours 64
//	go test ./proof/internal/sim -run TestWorld$ -timeout 24h -until 10000 -hours 30 -record done.tsv
func TestWorld(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a world allocates a lot and keeps little
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
		for record.has(seed) || *grown && !growsAmongWildClocks(seed) {
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
					c := live(t, planOf(t, seed))
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

// growsAmongWildClocks reports whether -grown selects a seed's world.
func growsAmongWildClocks(seed uint64) bool {
	p := NewPlan(seed, *taskHours)
	return p.Grows && p.Wild
}

// planOf returns the plan of a seed, changed as the flags require.
func planOf(t *testing.T, seed uint64) Plan {
	p := NewPlan(seed, *taskHours)
	if *grown {
		p.Hours = 24 * time.Hour
	}
	if *ignore != "" {
		p.Ignore = regexp.MustCompile(*ignore)
	}
	if *busy > 0 {
		p = p.long(rand.New(rand.NewPCG(seed, 14)).Float64() < *busy)
	}
	if *few {
		p = p.With(fewParts(seed))
	}
	if *partList == "" {
		left, err := leaveOut(p.Parts, *without)
		if err != nil {
			t.Fatal(err)
		}
		return p.With(left)
	}
	chosen, err := ParseParts(*partList)
	if err != nil {
		t.Fatal(err)
	}
	return p.With(chosen)
}

// live runs the world of one plan.
func live(t *testing.T, p Plan) (c Counts) {
	began := time.Now()
	var w *World
	var err error
	// If a process is stopped while it holds a lock, virtual time does not advance and the world hangs.
	patience := 5*time.Minute + time.Duration(p.Hours.Hours()*float64(p.Tasks))*time.Minute
	stuck := time.AfterFunc(patience, func() {
		panic(fmt.Sprintf("seed %d does not advance: a goroutine below waits for a lock that another one holds", p.Seed))
	})
	defer stuck.Stop()
	synctest.Test(t, func(*testing.T) { w, c, err = Run(p) })
	if err != nil {
		t.Errorf("after %.1f agent hours: %v\nrepeat with: go test ./proof/internal/sim -run TestWorld$ -seed %d -seeds 1 -hours %v -grown=%t -busy %v -parts %s\n%s", c.Lived.Hours(), err, p.Seed, *taskHours, *grown, *busy, strings.Join(slices.Sorted(maps.Keys(p.Parts)), ","), w.failure())
	}
	t.Logf("seed %d, %v: %v: %v", p.Seed, time.Since(began).Round(time.Millisecond), p, c)
	return c
}

// failure describes the events that led to a broken promise.
func (w *World) failure() string {
	if w.History.Err() != nil {
		return w.History.Failure()
	}
	path, err := w.History.Save()
	return fmt.Sprintf("the history, in which package history finds nothing wrong: %s %v", path, err)
}

// Every part that the code checks for is in the table of parts.
func TestParts(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`has\("(\w+)"\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range asked.FindAllStringSubmatch(string(text), -1) {
			if _, known := parts[name[1]]; !known {
				t.Errorf("%s: has(%q): there is no such part", file, name[1])
			}
		}
	}
}

// A mistyped part is refused by -without, as by -parts.
func TestLeaveOut(t *testing.T) {
	all := map[string]bool{"pauses": true, "steps": true, "sinks": true}
	for list, want := range map[string]int{"": 3, "pauses": 2, "pauses,reaper,steps": 1} {
		if left, err := leaveOut(all, list); err != nil || len(left) != want {
			t.Errorf("without %q: got %v, %v, want %d parts", list, left, err, want)
		}
	}
	if left, err := leaveOut(all, "pauses,step"); err == nil || !strings.Contains(err.Error(), `no part "step"`) {
		t.Errorf("got %v, %v, want an error that names the part", left, err)
	}
}

// If a store breaks its promises and deceives agents, the judge notices. When the saved
// history is judged again, the result is the same.
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
		"its releases forget the last": {[]string{"SET reserved_until = :reserved_until, previous", "SET reserved_until = if_not_exists(not_before, :reserved_until), previous"}, "was stamped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := NewPlan(4, 40) // bounded
				p.Releases = []lease.Config{{}}
				p = p.With(map[string]bool{"weather": true, "pauses": true, "steps": true, "deploys": true, "operators": true})
				p.Hours, p.NodeIDs = 2*time.Hour, p.Tasks-2
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

// When the saved history of a world without broken promises is judged again, the result is
// the same.
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
