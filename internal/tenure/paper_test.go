package tenure

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

var (
	paperOut  = flag.String("paper", "", "directory for benchmarks-fleet.md, with fleets of all sizes")
	paperRuns = flag.Uint64("paper-seeds", 0, "seeds of each bar; 0 is 5")
)

// ours is the policy of this package, with the simulation's own random source.
var ours = policy{
	name: "full jitter, 50 ms to 1 s",
	backoff: func(r *rand.Rand, n int) time.Duration {
		return time.Duration(r.Int64N(int64(protocol.LongestBackoff(n))))
	},
	jitter: spread(10),
}

// spread returns a jitter of up to the given percentage more or less.
func spread(percent int64) func(*rand.Rand, time.Duration) time.Duration {
	return func(r *rand.Rand, d time.Duration) time.Duration {
		most := int64(d) * percent / 100
		return d - time.Duration(most) + time.Duration(r.Int64N(2*most+1))
	}
}

// paperResult is the result of one event in a fleet's life.
type paperResult struct {
	paperCase
	done              bool
	unmet             int           // agents that have no node ID at the end
	all               time.Duration // until all agents have a node ID, or their confirmation
	p50, p99          time.Duration // until one agent has a node ID; only for starts
	count             paperCount
	peak, offered     int // most writes done and most requests sent in one second
	steady, throttles int // most writes and throttles in one second of the minute after the event
	mean              int // mean writes in a second of that minute
}

func (r paperResult) String() string {
	return fmt.Sprintf("%d on %d, %s: done %v in %v (p50 %v, p99 %v), peak %d writes/s, %d requests/s offered, %+v, $%.4f; then %d writes/s, %d throttles/s",
		r.agents, r.partitions, r.policy.name, r.done, r.all, r.p50, r.p99, r.peak, r.offered, r.count, r.count.dollars(), r.steady, r.throttles)
}

// measured returns the counts since a moment, and those of the minute that follows.
func (w *paper) measured(from int64, before paperCount, done bool) paperResult {
	r := paperResult{paperCase: w.paperCase, done: done, unmet: w.unmet, all: time.Duration(w.now-from) * time.Millisecond, count: w.spent.minus(before)}
	w.run(time.Second, nil) // lets the present second end
	writes := func(c paperCount) int { return c.writes }
	first, last := int(from/1000), len(w.second)
	r.peak = w.peak(first, last, writes)
	r.offered = w.peak(first, last, func(c paperCount) int { return c.requests })
	total := w.spent.writes
	w.run(time.Minute, nil)
	r.mean = (w.spent.writes - total) / 60
	r.steady = w.peak(last, len(w.second), writes)
	r.throttles = w.peak(last, len(w.second), func(c paperCount) int { return c.throttled })
	return r
}

const paperLimit = 3 * time.Minute

// coldStart starts the whole fleet within a second, on free node IDs.
func coldStart(c paperCase) (*paper, paperResult) {
	w := newPaper(c)
	for i := range w.agents {
		w.start(int32(i), time.Second)
	}
	done := w.run(paperLimit, w.placed)
	r := w.measured(0, paperCount{}, done)
	r.p50, r.p99 = w.quantile(.5), w.quantile(.99)
	return w, r
}

// rolling replaces the fleet, a tenth at a time. A tenth of the agents stop and as many
// start. When the new agents have node IDs and the old ones have ended, the next tenth
// follows.
func rolling(w *paper) paperResult {
	from, before := w.now, w.spent
	n := len(w.agents)
	w.agents = append(w.agents, make([]paperAgent, n)...)
	done := true
	for tenth := 0; tenth < 10 && done; tenth++ {
		for i := tenth * n / 10; i < (tenth+1)*n/10; i++ {
			w.stop(int32(i))
			w.start(int32(n+i), time.Second)
		}
		done = w.run(paperLimit, func() bool {
			return w.placed() && !slices.ContainsFunc(w.agents[tenth*n/10:(tenth+1)*n/10], func(a paperAgent) bool { return a.state != paperGone })
		})
	}
	w.agents = w.agents[:2*n]
	return w.measured(from, before, done)
}

// outage makes the table answer every request with an error for d. Afterwards all agents
// come back at once. Only the time after the outage is measured.
func outage(w *paper, d time.Duration) paperResult {
	w.down = true
	w.run(d, nil)
	w.down = false
	for i := range w.agents {
		if w.agents[i].state == paperHolds {
			w.agents[i].away = true
			w.unmet++
		}
	}
	from, before := w.now, w.spent
	return w.measured(from, before, w.run(paperLimit, w.placed))
}

// A fleet of 1,024 keeps its promises in every event of its life, and the same seed leads
// to the same life.
func TestFleetOnPaper(t *testing.T) {
	c := paperCase{agents: 1024, partitions: 4, policy: ours, seed: 1, fresh: true}
	life := func() (all []paperResult) {
		w, start := coldStart(c)
		all = append(all, start, outage(w, time.Minute), rolling(w))
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := life()
	for _, r := range all {
		t.Log(r)
		if !r.done || r.count.lost > 0 {
			t.Errorf("not all have their node IDs: %v", r)
		}
	}
	start := all[0]
	if w := float64(start.count.writes) / 1024; w > 2 {
		t.Errorf("a claim in a herd took %.2f writes", w)
	}
	if start.all > 10*time.Second || all[1].all > 10*time.Second {
		t.Errorf("a fleet of 1,024 took %v to start and %v to return", start.all, all[1].all)
	}
	strip := func(all []paperResult) (s []string) {
		for _, r := range all {
			s = append(s, r.String())
		}
		return s
	}
	if again := life(); !reflect.DeepEqual(strip(all), strip(again)) {
		t.Errorf("the same seed gave %v and %v", strip(all), strip(again))
	}
}

// In a rolling deploy of 1,024 agents on exactly as many node IDs, each new agent waits
// for a node ID that another agent releases. This costs at most four writes besides
// renewals, including those of the releases, and 40 read units per agent. A node ID rests
// for at most 2 s at p99.
func TestRollingDeployOnAFullPool(t *testing.T) {
	for seed := range uint64(5) {
		w, _ := coldStart(paperCase{agents: 1024, partitions: 4, fresh: true, policy: ours, seed: seed + 1})
		r := rolling(w)
		slices.Sort(w.rested)
		p99, n := w.rested[len(w.rested)*99/100], float64(r.agents)
		writes, reads := float64(r.count.writes-r.count.renewals)/n, r.count.reads/n
		t.Logf("seed %d: %v, %.2f writes (%.2f refused, %.3f of the note by those who wait, %.2f by releases), %.1f read units, released to claimed %d ms at p99",
			seed+1, r.all, writes, float64(r.count.refused)/n, float64(r.count.told)/n, float64(r.count.left)/n, reads, p99)
		if err := w.check(); err != nil || !r.done || writes > 4 || reads > 40 || p99 > 2000 {
			t.Errorf("seed %d: %v: %v, %.2f writes, %.1f read units, %d ms", seed+1, err, r, writes, reads, p99)
		}
	}
}

// Renewals get out of step at once, after a start and after an outage: the busiest
// second of the minute after the last agent was confirmed has at most a quarter more
// writes than the mean. (With only 10 % of jitter, it had four times the mean.)
func TestRenewalsOutOfStep(t *testing.T) {
	for _, c := range []paperCase{
		{agents: 1024, partitions: 4, seed: 1},
		{agents: 1024, partitions: 4, seed: 2},
		{agents: 1024, partitions: 4, seed: 3},
		{agents: 1024, partitions: 4, seed: 4},
		{agents: 1024, partitions: 4, seed: 5},
		{agents: 8192, partitions: 32, size: 16384, seed: 1},
		{agents: 49152, partitions: 32, size: 65536, seed: 1},
	} {
		if c.agents > 8192 && *paperOut == "" {
			continue // takes half a minute, so it needs -args -paper DIRECTORY
		}
		c.policy = ours
		w, start := coldStart(c)
		for what, r := range map[string]paperResult{"start": start, "outage": outage(w, time.Minute), "short outage": outage(w, 8*time.Second)} {
			t.Logf("%s of %d, seed %d: %d writes in the busiest second, %d in the mean: %.2f", what, c.agents, c.seed, r.steady, r.mean, float64(r.steady)/float64(r.mean))
			if !r.done || 4*r.steady > 5*r.mean {
				t.Errorf("%s: %v: mean %d", what, r, r.mean)
			}
		}
	}
}

// TestFleetsOnPaper simulates both sizes, all events and all candidates for retries, and
// writes a page of the docs:
//
//	make fleet-page
func TestFleetsOnPaper(t *testing.T) {
	if *paperOut == "" {
		t.Skip("writes a page of docs, in minutes: needs -args -paper DIRECTORY")
	}
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if err := os.WriteFile(filepath.Join(*paperOut, "benchmarks-fleet.md"), []byte(paperPage(log)), 0o644); err != nil {
		t.Fatal(err)
	}
}
