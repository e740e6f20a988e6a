package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// report contains all measurements.
type report struct {
	machine, command, note string
	runs                   int
	below, cap, busy       []result
	checks                 []verdict
}

func (r *report) markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Benchmarks: ID generators\n")
	p("Measured %s on %s with `%s` in `bench/`; %d alternating runs, median and <sub>smallest–largest</sub>.", time.Now().Format(time.DateOnly), r.machine, strings.TrimSpace(r.command), r.runs)
	if r.note != "" {
		p("%s", r.note)
	}
	p("Compare figures only within one table. All figures include the call of a function and the check whether to stop.\n")
	p("![Time per ID below the cap, and CPU time per ID at the cap](benchmarks-generator.svg)\n")

	p("## The bars\n")
	p("The bars were set before the measurement. A ratio is taken run by run. A missed bar is reported as missed.\n")
	p("| | asked for | measured | |\n|---|---|---|---|")
	for _, x := range r.bars() {
		sign, verdict := "≤", "met"
		if x.atLeast {
			sign = "≥"
		}
		if !x.met() {
			verdict = "**missed**"
		}
		p("| %s | %s %v | %s | %s |", x.what, sign, x.want, x.got.format(x.digits), verdict)
	}
	p("\nWith busy neighbours, Nodelease at 64 goroutines reached %s of the format's cap, and cannot go faster. So its ratio over bwmarrin's throughput shows how much of the machine the scheduler gave to bwmarrin's spinning.", find(r.busy, ours, 64).of(efficiency).format(3))

	p("\n## Below the cap\n")
	p("The layout has a sequence that is never used up (22 bits, for bwmarrin too), so that the code is measured and not the format. The first columns are ns of wall time per ID with 1, 2 and 64 goroutines, in the fastest of ten slices of each run. The CPU columns are ns of CPU time, which a busy machine disturbs less.\n")
	p("| | 1 | 2 | 64 | CPU, 1 | CPU, 64 | 1, over bwmarrin | 64, over bwmarrin |\n|---|---|---|---|---|---|---|---|")
	for _, x := range r.below {
		if x.goroutines != 1 {
			continue
		}
		at := func(g int) result { return find(r.below, x.name, g) }
		digits := 1
		if at(1).of(perID).median < 5 {
			digits = 2
		}
		p("| %s | %s | %s | %s | %s | %s | %s | %s |", x.name, at(1).of(perID).format(digits), at(2).of(perID).format(digits), at(64).of(perID).format(digits), at(1).of(cpu).format(digits), at(64).of(cpu).format(digits),
			at(1).over(find(r.below, theirs, 1), perID).format(2), at(64).over(find(r.below, theirs, 64), perID).format(2))
	}

	p("\n## At the cap\n")
	p("The format's cap is 4,096 IDs per millisecond and node, or 244.1 ns per ID. A generator that takes less time uses milliseconds that have not come. sonyflake's own cap is 256 IDs in 10 ms, or 39,063 ns per ID. Nodelease holds a lease on a store in memory, and renews it each second.\n")
	p("If 64 callers ask again at once, 64 in 4,096 calls have to wait for the next millisecond. So a p99 near 1 ms is due to the format.\n")
	r.capTable(p, r.cap, true)

	p("\n## At the cap, with four processes that use up a core each\n")
	r.capTable(p, r.busy, false)

	p("\n## Does the harness see bugs?\n")
	p("64 goroutines generate IDs. All IDs are compared with each other, and their stamps with the wall clock after the call. The last two generators have a planted bug: one keeps time and sequence in two words, the other borrows time.\n")
	p("| | IDs | duplicates | out of order | ahead of the clock |\n|---|---|---|---|---|")
	for _, v := range r.checks {
		p("| %s | %d | %d | %d | %s |", v.name, v.ids, v.duplicates, v.disorder, max(v.ahead, 0).Round(time.Millisecond))
	}
	return b.String()
}

func (r *report) capTable(p func(string, ...any), results []result, latency bool) {
	head, line := "| | goroutines | ns/ID | of the cap | CPU ns/ID | CPU over bwmarrin | slowest/fastest |", "|---|---|---|---|---|---|---|"
	if latency {
		head, line = head+" p50 ns | p99 µs | p99.9 ms | max ms |", line+"---|---|---|---|"
	}
	p("%s\n%s", head, line)
	for _, x := range results {
		row := fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s |", x.name, x.goroutines, x.of(perID), x.of(efficiency).format(3), x.of(cpu).format(0),
			x.over(find(results, theirs, x.goroutines), cpu).format(2), x.of(fairness).format(2))
		if latency {
			row += fmt.Sprintf(" %s | %s | %s | %s |", x.of(func(s sample) float64 { return s.p50 }).format(0),
				x.of(func(s sample) float64 { return s.p99 / 1e3 }).format(0), x.of(p999).format(2), x.of(slowest).format(1))
		}
		p("%s", row)
	}
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
	load := ""
	if l, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = ", load " + strings.Fields(string(l))[0] + " at the start"
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s%s", cpu, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), load)
}
