package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
)

// report contains all measurements.
type report struct {
	machine, note, endLoad string
	patience               time.Duration
	began                  time.Time
	took                   time.Duration
	sizes                  []int
	herds                  []herdResult
	upkeeps                []upkeepResult
	plain                  plainResult
	crashes                []crashResult
}

func (r *report) herd(name string, size int) herdResult {
	for _, h := range r.herds {
		if h.name == name && h.size == size {
			return h
		}
	}
	return herdResult{}
}

func (r *report) upkeep(name string) upkeepResult {
	for _, u := range r.upkeeps {
		if u.name == name {
			return u
		}
	}
	return upkeepResult{}
}

func (r *report) markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Benchmarks: leases\n")
	p("Measured %s on %s and %s at the end, with `make bench-lease`, in one run of %v. %s", r.began.Format(time.DateOnly), r.machine, r.endLoad, r.took.Round(time.Second), r.note)
	p("[ID generators](benchmarks-generator.md) · [Fleet simulation](benchmarks-fleet.md): whole fleets against DynamoDB's limits.\n")
	p("![Requests and wall time until all claimants of a herd have a node ID](benchmarks.svg)\n")
	p("Nodelease, [dynamolock](https://github.com/cirello-io/dynamolock) v2.1.0 and Zeebe's algorithm work on the same DynamoDB Local. Each uses one client of the AWS SDK for the whole herd (128 connections). The client's")
	p("transport counts every request that leaves the process. etcd runs as a server with one member in the measuring process, with its log on disk. gRPC interceptors count its requests (`Txn` as a write, `Range` as a query).\n")
	p("DynamoDB Local handles requests one at a time. So **the times show how the contenders compare on this machine, not how long DynamoDB would take**. The numbers of requests are the same anywhere.\n")

	p("## The bars\n")
	p("The bars were set before the measurement. A missed bar is reported as missed.\n")
	p("| | asked for | measured | |\n|---|---|---|---|")
	for _, x := range r.bars() {
		sign, verdict := "≤", "met"
		if x.atLeast {
			sign = "≥"
		}
		if !x.met() {
			verdict = "**missed**"
		}
		got := fmt.Sprintf("%.2f", x.got)
		if x.bound {
			got = "> " + got
			if !x.met() {
				verdict = "not decided: cut off"
			}
		}
		if math.IsNaN(x.got) || math.IsInf(x.got, 0) {
			got, verdict = "not measured", ""
		}
		p("| %s | %s %v | %s | %s |", x.what, sign, x.want, got, verdict)
	}

	p("\nA herd of as many claimants as node IDs guesses all at once, so more than a third of the guesses are refused. A claimant whose guess was refused pauses for about as long as the answer took, so that its search sees what others have claimed. Without the pause, a claim needs 3.2 requests, as etcd's does here. With the pause, the last claimants take longer. Wall time depends on the load of the machine more than requests do.")
	p("\n## Claims\n")
	p("As many claimants as the second column has start at once, as when a fleet starts. There are as many node IDs, and all of them are free.\n")
	p("- *nodelease* is everything that `lease.Start` does: one GetItem of a [hint card](architecture.md#the-item-and-its-cards) that the bootstrap function wrote, and then the claim. If the claim is refused, a Query of 16 node IDs follows (if none of them is free, one of 64), and a claim of one of the free ones. If that claim is refused too, it tries one more of them before it reads again.")
	p("- *dynamolock* uses one lock per node ID with `FailIfLocked`. The loser of a race looks again after 10 ms instead of the default 1 s.")
	p("- *Zeebe's algorithm* reads the node IDs from 0 on with one GetItem each. It claims the first free one with a compare-and-set, as its `RepositoryNodeIdProvider` does on S3.")
	p("- *etcd* grants a lease and tries a random node ID in a transaction. If this node ID is taken, it lists all keys and tries a random free one, which is our own strategy.\n")
	p("p50 and p99 are the times that a claimant needs from its start until it has a node ID.\n")
	p("| | claimants | requests a claim | conditional writes | refused | Queries | read units | all have one in | p50 | p99 |\n|---|---|---|---|---|---|---|---|---|---|")
	for _, size := range r.sizes {
		for _, h := range r.herds {
			if h.size != size {
				continue
			}
			t := h.tally
			units := fmt.Sprintf("%.1f", t.readUnits/float64(size))
			if strings.HasPrefix(h.name, "etcd") {
				units = "–"
			}
			bound, all, p50, p99 := "", short(h.took), short(h.p50), short(h.p99)
			if h.cut() {
				bound, all, p50, p99 = "> ", fmt.Sprintf("%d in %s, then cut off", h.placed, short(h.took)), "–", "–"
			}
			p("| %s | %d | %s%.2f | %s%.2f | %s%.2f | %.2f | %s | %s | %s | %s |", h.name, size, bound, h.each(t.requests), bound, h.each(t.writes), bound, h.each(t.refused), h.each(t.queries), units, all, p50, p99)
		}
	}
	p("\nHerds run %d times in turns, and the table has the run with the middle time. Herds that take more than %v run once. A herd that has not ended after %v is cut off: its counts cover the requests until then, and are lower bounds (>).\n", herdRuns, longHerd, r.patience)
	p("DynamoDB bills a refused conditional write like a successful one. So the bill is the writes column, times the item's size in KB rounded up. A hint card is half a unit. An eventually consistent Query of 16 node IDs is half a unit or one. A strongly consistent GetItem is one.")

	p("\n## Renewals and releases\n")
	p("There are %d holders with %d renewals each, twice a second. The table has the capacity as DynamoDB Local reports it (`ReturnConsumedCapacity`). In brackets is the result of the formula:", keepers, renewalsOf)
	p("⌈item size / 1 KB⌉ write units for a write, and ⌈size / 4 KB⌉ read units for a strongly consistent read.\n")
	p("| | requests a renewal | write units (formula) | read units (formula) | p50 | p99 | requests a release | write units (formula) |\n|---|---|---|---|---|---|---|---|")
	for _, u := range r.upkeeps {
		n, k := float64(u.renewals), float64(u.releases)
		units := []string{fmt.Sprintf("%.2f (1)", u.renew.writeUnits/n), fmt.Sprintf("%.2f (0)", u.renew.readUnits/n), fmt.Sprintf("%.2f (1)", u.release.writeUnits/k)}
		if strings.HasPrefix(u.name, "etcd") {
			units = []string{"–", "–", "–"}
		}
		name := strings.TrimSuffix(u.name, ", in key order")
		p("| %s | %.2f | %s | %s | %s | %s | %.2f | %s |", name, float64(u.renew.requests)/n, units[0], units[1], short(u.p50), short(u.p99), float64(u.release.requests)/k, units[2])
	}
	p("\nThe second request of our release reads the note of waiting claimants, for half a read unit.")
	p("\nThe last comparison is with a plain `UpdateItem` that has a condition and whose answer is ignored. Each kind of write was sent 2,000 times, in turns, after 4,000 to warm up, since DynamoDB Local compiles the code for long expressions last. The medians are %s for the plain write, %s for our renewal (%.2f times as much), and %s for the write of our claim (%.2f times).", short(r.plain.bare), short(r.plain.renew), r.plain.ratio(), short(r.plain.claim), r.plain.claimRatio())
	p("Our writes take longer because their expressions are longer, and because the answer has the item. From the item, a holder learns without a read whether an attempt whose answer was lost has succeeded.")

	p("\n## From a crash until another process has the node ID\n")
	p("There is one node ID, with leases of %v. Its holder dies right after a renewal. One claimant waits from that moment on. Another claimant starts %v later, when the lease has long expired.\n", crashed, 2*crashed)
	p("| | a claimant that waits from the crash on | a claimant that starts %v after it |\n|---|---|---|", 2*crashed)
	for _, c := range r.crashes {
		p("| %s | %s | %s |", strings.TrimSuffix(c.name, ", in key order"), short(c.waiting), short(c.later))
	}
	p("\nNodelease waits for the expiry plus the claim guard (a tenth of the lease, at most 1 s). The claim guard is the price of exclusivity under clock error. dynamolock compares no clocks. So each claimant watches a dead lock for a full lease before it takes the lock, however long ago the holder died.")
	return b.String()
}

// short formats a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f ms", float64(d)/1e6)
}

// describe returns a line that describes the machine.
func describe() string {
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s, load %s at the start", cpu, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), load())
}

// load returns the average number of processes that were ready to run during the last
// minute.
func load() string {
	l, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(l))[0]
}
