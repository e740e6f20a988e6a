package tenure

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// paperBar is a case and its bars, which were set before anything was simulated. A bar of
// zero is not checked.
type paperBar struct {
	what string
	paperCase
	rolling       bool
	all           time.Duration
	writes, reads float64 // of an agent; the writes without renewals
}

func paperBars() []paperBar {
	return []paperBar{
		{"first start ever, 49,152 on 65,536, 32 partitions, with `Expect`", paperCase{agents: 49152, size: 65536, partitions: 32, fresh: true, expect: 49152}, false, 30 * time.Second, 2, 0},
		{"the same without `Expect`", paperCase{agents: 49152, size: 65536, partitions: 32, fresh: true}, false, 90 * time.Second, 0, 0},
		{"cold start, groups open, 49,152 on 65,536, 32 partitions", paperCase{agents: 49152, size: 65536, partitions: 32}, false, 8 * time.Second, 1.6, 5},
		{"cold start, groups open, 65,528 on 65,528, 32 partitions", paperCase{agents: 65528, partitions: 32}, false, 90 * time.Second, 6, 150},
		{"first start ever, 8,192 on 8,192, 4 partitions", paperCase{agents: 8192, size: 8192, partitions: 4, fresh: true}, false, 20 * time.Second, 0, 0},
		{"first start ever, 8,192 on 12,288, 4 partitions, with `Expect`", paperCase{agents: 8192, size: 12288, partitions: 4, fresh: true, expect: 8192}, false, 8 * time.Second, 0, 0},
		{"rolling deploy, 1,024 on 1,536, 4 partitions", paperCase{agents: 1024, size: 1536, partitions: 4}, true, 0, 2, 15},
		{"rolling deploy, 1,024 on 1,024, 4 partitions", paperCase{agents: 1024, partitions: 4}, true, 0, 4, 40},
	}
}

// paperSeeds is how many times each case is run; the worst run is compared with the bars.
const paperSeeds = 5

// paperWorst has, for each figure by itself, the worst of some runs of a case.
type paperWorst struct {
	all           time.Duration
	writes, reads float64
	renewals      float64
	unmet         int
}

func (b paperBar) run(seeds uint64) (worst paperWorst, err error) {
	for seed := range seeds {
		c := b.paperCase
		c.policy, c.seed = ours, seed+1
		w, r := coldStart(c)
		if b.rolling {
			r = rolling(w)
		}
		if err := w.check(); err != nil {
			return worst, err
		}
		if r.count.lost > 0 {
			return worst, fmt.Errorf("%d lost their node IDs: %v", r.count.lost, r)
		}
		n := float64(r.agents)
		worst.all, worst.unmet = max(worst.all, r.all), max(worst.unmet, r.unmet)
		worst.writes = max(worst.writes, float64(r.count.writes-r.count.renewals)/n)
		worst.renewals = max(worst.renewals, float64(r.count.renewals)/n)
		worst.reads = max(worst.reads, r.count.reads/n)
	}
	return worst, nil
}

// missed returns the bars that a run does not meet.
func (b paperBar) missed(w paperWorst) (all []string) {
	if w.unmet > 0 {
		all = append(all, fmt.Sprintf("%d have no node ID", w.unmet))
	}
	if b.all > 0 && w.all > b.all {
		all = append(all, "time")
	}
	if b.writes > 0 && w.writes > b.writes {
		all = append(all, "writes")
	}
	if b.reads > 0 && w.reads > b.reads {
		all = append(all, "read units")
	}
	return all
}

// asked returns the text of the bars.
func (b paperBar) asked() string {
	var all []string
	if b.all > 0 {
		all = append(all, "all in "+short(b.all))
	}
	if b.writes > 0 {
		all = append(all, fmt.Sprintf("%g writes", b.writes))
	}
	if b.reads > 0 {
		all = append(all, fmt.Sprintf("%g read units", b.reads))
	}
	return strings.Join(all, ", ")
}

// row returns the line of the page for the worst of some runs.
func (b paperBar) row(w paperWorst) string {
	verdict := "met"
	if missed := b.missed(w); len(missed) > 0 {
		verdict = "**missed**: " + strings.Join(missed, ", ")
	}
	all := short(w.all)
	if w.unmet > 0 {
		all = fmt.Sprintf("%d have none after %s", w.unmet, short(paperLimit))
	}
	return fmt.Sprintf("| %s | %s | %s | %.2f | %.1f | %s |", b.what, b.asked(), all, w.writes, w.reads, verdict)
}

// bars writes the section of the bars.
func (b *paperWriter) bars() {
	b.p("## What was asked for\n")
	b.p("Each case is run with five seeds, and each figure is the worst of the five. The bars were set before anything was simulated. The writes of an agent include refused writes, but no renewals.\n")
	b.p("| case | asked for | all placed in | writes an agent | read units an agent | |\n|---|---|---|---|---|---|")
	for _, bar := range paperBars() {
		w, err := bar.run(paperSeeds)
		if err != nil {
			b.p("**%v**", err)
			continue
		}
		b.logf("%s", bar.row(w))
		b.p("%s", bar.row(w))
	}
	b.p("\nIn a rolling deploy on 1,536, the two writes are the claim and the release of each node ID. Some seven claims in 1,024 are refused, because another claim was under way when their page was read. More node IDs make such a refusal rarer, but nothing short of a lock makes it impossible. Strongly consistent reads would leave one or two of the seven, and cost some forty times what these refusals cost.\n")
	b.p("The next table is about the minute after the last agent was confirmed. It has the writes of the busiest second, divided by the mean of that minute. The limit is 1.25:\n")
	b.p("| agents | after a start | after an outage of a minute | after one of 8 s |\n|---|---|---|---|")
	for _, c := range []paperCase{{agents: 1024, partitions: 4}, {agents: 49152, partitions: 32, size: 65536}} {
		worst := [3]float64{}
		for seed := range uint64(paperSeeds) {
			c.policy, c.seed = ours, seed+1
			w, start := coldStart(c)
			for i, r := range []paperResult{start, outage(w, time.Minute), outage(w, 8*time.Second)} {
				worst[i] = max(worst[i], float64(r.steady)/float64(r.mean))
			}
		}
		b.logf("busiest second of %d: %.2f", c.agents, worst)
		b.p("| %d | %.2f | %.2f | %.2f |", c.agents, worst[0], worst[1], worst[2])
	}
	b.p("")
}

// The rows of the page that take seconds must be equal to the results of this code, so a
// page that was not regenerated fails here. The other rows take minutes, and depend on
// the same decisions.
func TestFleetPageIsUpToDate(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds: run without -short")
	}
	page, err := os.ReadFile("../../docs/benchmarks-fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range paperBars() {
		if b.agents > 8192 {
			continue
		}
		w, err := b.run(paperSeeds)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), b.row(w)+"\n") {
			t.Errorf("docs/benchmarks-fleet.md does not have this row: run make fleet-page\n%s", b.row(w))
		}
	}
}

// Every run of the tests compares the fleets of 1,024 with their bars, with one seed. With
// -args -paper DIRECTORY, all fleets are compared, with five seeds, which takes minutes. A
// bar that is missed is only logged; a lost node ID fails the test.
func TestFleetBars(t *testing.T) {
	for _, b := range paperBars() {
		t.Run(strings.ReplaceAll(b.what, " ", "_"), func(t *testing.T) {
			seeds := uint64(paperSeeds)
			if *paperOut == "" {
				if b.agents > 1024 {
					t.Skip("needs -args -paper DIRECTORY")
				}
				seeds = 1
			}
			if *paperRuns > 0 {
				seeds = *paperRuns
			}
			w, err := b.run(seeds)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %v, %.2f writes and %.2f renewals, %.1f read units; asked for %s", b.what, w.all, w.writes, w.renewals, w.reads, b.asked())
			if missed := b.missed(w); len(missed) > 0 {
				t.Logf("%s: missed in %s: %+v", b.what, strings.Join(missed, ", "), w)
			}
		})
	}
}
