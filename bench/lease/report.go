package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
)

// report has all measurements.
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
	p("![Requests and wall time until all claimants of a herd have a number](benchmarks.svg)\n")
	p("Ours, [dynamolock](https://github.com/cirello-io/dynamolock) v2.1.0 and Zeebe's algorithm work on the same DynamoDB Local, each through one client of the AWS SDK for the whole herd (128 connections). The client's")
	p("transport counts every request that leaves the process. etcd runs as a server with one member in the measuring process, with its log on disk, counted by gRPC interceptors (`Txn` as a write, `Range` as a query).")
	p("DynamoDB Local handles requests one at a time, so **the times show how the contenders compare on this machine, not how long DynamoDB would take**. The numbers of requests are the same anywhere.\n")

	p("## The bars\n")
	p("Set before the measurement. A miss stays a miss.\n")
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

	p("\nA herd of as many claimants as node IDs guesses all at once, so more than a third of the guesses are refused. A claimant then pauses for up to twice the time of the answer, and its search sees what others have claimed: without the pause a claim needs 3.2 requests, as etcd's does here, and with it the last ones take longer. Wall time depends on the load of the machine more than requests do.")
	p("\n## Claims\n")
	p("The given number of claimants start at once, with as many node IDs, all free, as when a fleet starts. *Ours* is everything that `lease.Start` does: one GetItem of a [hint card](architecture.md#the-item-and-its-cards), which the bootstrap function wrote, then the claim and, if that is refused, a Query of 16 node IDs. *dynamolock* uses one lock per node ID with `FailIfLocked`; the loser of a race")
	p("looks again after 10 ms instead of the default 1 s. *Zeebe's algorithm* reads the numbers from 0 on with one GetItem each, and claims the first free one with a compare-and-set, as its `RepositoryNodeIdProvider` does on S3. *etcd* grants a lease,")
	p("tries a random number in a transaction and, if that is taken, lists all keys and tries a random free one, which is our own strategy. p50 and p99 are the times that a claimant needs from its start until it has a number.\n")
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
	p("\nHerds run %d times in turns, and the one with the middle time is in the table; those of more than %v run once. A herd that has not ended after %v is cut off: its counts cover the requests until then, and are lower bounds (>).", herdRuns, longHerd, r.patience)
	p("DynamoDB bills a refused conditional write like one that is done: the writes column, times the item's size in KB rounded up, is the bill. A hint card is half a unit, an eventually consistent Query of 16 node IDs half a unit or one; a strongly consistent GetItem is one.")

	p("\n## Renewals and releases\n")
	p("%d holders, %d renewals each, twice a second. Capacity as DynamoDB Local reports it (`ReturnConsumedCapacity`); beside it the formula,", keepers, renewalsOf)
	p("⌈item size / 1 KB⌉ write units for a write and ⌈size / 4 KB⌉ read units for a strongly consistent read.\n")
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
	p("\nIn turns with a plain `UpdateItem` that has a condition and whose answer is ignored (1,000 each after as many to warm up, medians): plain %s, our renewal %s (%.2f), the write of our claim %s (%.2f). The difference is the longer expression, and the item in the answer, which is how", short(r.plain.bare), short(r.plain.renew), r.plain.ratio(), short(r.plain.claim), r.plain.claimRatio())
	p("a holder learns without a read what became of an attempt whose answer was lost.")

	p("\n## From a crash until the number is someone else's\n")
	p("One number, leases of %v; its holder dies right after a renewal. One claimant waits from that moment on; another one starts %v later, when the lease has long run out.\n", crashed, 2*crashed)
	p("| | who waits from the crash on | who comes %v after it |\n|---|---|---|", 2*crashed)
	for _, c := range r.crashes {
		p("| %s | %s | %s |", strings.TrimSuffix(c.name, ", in key order"), short(c.waiting), short(c.later))
	}
	p("\nOurs waits for the expiry plus the claim guard (a tenth of the lease, at most 1 s), which is the price of exclusivity under clock error; dynamolock, which compares no clocks, watches every dead lock for a full lease before it believes in the death, however long ago that was.")
	return b.String()
}

// short formats a duration with three digits.
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

// load returns how many processes wanted to run, on average over the last minute.
func load() string {
	l, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(l))[0]
}
