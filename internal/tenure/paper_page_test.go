package tenure

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// backoffs returns the candidates for the pause before a retry.
func backoffs() []policy {
	full := func(most time.Duration) func(*rand.Rand, int) time.Duration {
		return func(r *rand.Rand, n int) time.Duration {
			return time.Duration(r.Int64N(int64(min(most, 50*time.Millisecond<<min(n, 20)))))
		}
	}
	return []policy{
		ours,
		{name: "full jitter, 50 ms to 5 s", backoff: full(5 * time.Second), jitter: spread(10)},
		{name: "full jitter, 50 ms to 20 s (the SDK's)", backoff: full(20 * time.Second), jitter: spread(10)},
		{name: "no jitter, 50 ms doubling to 1 s", backoff: func(_ *rand.Rand, n int) time.Duration { return protocol.LongestBackoff(n) }, jitter: spread(10)},
		{name: "no jitter, always 50 ms", backoff: func(*rand.Rand, int) time.Duration { return 50 * time.Millisecond }, jitter: spread(10)},
	}
}

// jitters returns the candidates for spreading renewals.
func jitters() (all []policy) {
	for _, percent := range []int64{0, 10, 50} {
		p := ours
		p.name, p.jitter, p.together = fmt.Sprintf("%d %%", percent), spread(percent), true
		all = append(all, p)
	}
	return all
}

// paperWriter writes a page.
type paperWriter struct {
	strings.Builder
	logf func(string, ...any)
}

func (b *paperWriter) p(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

func paperPage(logf func(string, ...any)) string {
	b := &paperWriter{logf: logf}
	b.intro()
	b.bars()
	b.lives()
	b.firstStarts()
	b.limits()
	b.retries()
	b.spread()
	return b.String()
}

func (b *paperWriter) row(what string, r paperResult) {
	b.logf("%s: %v", what, r)
	all, n := short(r.all), float64(r.agents)
	if !r.done {
		all = fmt.Sprintf("**not all**: %d have none after %s", r.unmet, short(paperLimit))
	}
	agent := "–"
	if r.p99 > 0 {
		agent = short(r.p50) + " / " + short(r.p99)
	}
	b.p("| %s | %s | %s | %.2f | %.2f | %.1f | %d | %d | %d | %d | %.4f |", what, all, agent, float64(r.count.writes)/n, float64(r.count.writes-r.count.renewals)/n, r.count.reads/n, r.peak, r.offered, r.count.throttled, r.count.lost, r.count.dollars())
}

func (b *paperWriter) head(first string) {
	b.p("| %s | all placed in | one agent, p50 / p99 | writes an agent | without renewals | read units an agent | most writes in a second | most requests in a second | throttled | lost | USD |\n|---|---|---|---|---|---|---|---|---|---|---|", first)
}

func (b *paperWriter) intro() {
	b.p("# Fleet simulation\n")
	b.p("This page shows a whole fleet, and its table, when everything happens at once. The figures are computed, not measured. The agents' own decisions (which node ID, which group, when to retry, what a refused")
	b.p("write means) run as a state machine in virtual time, on a table with DynamoDB's limits:\n")
	b.p("- Each partition has 1,000 write units and 3,000 read units per second. A new table on demand has 4 partitions.")
	b.p("- The node IDs of a group are in one partition, by the hash of the group's key. There are hint cards with a verdict on the table.")
	b.p("- Requests beyond the limits are throttled at once.")
	b.p("- A request takes 3 to 7 ms. One in a hundred takes up to 60 ms more.")
	b.p("- A table's growth, and burst capacity beyond one second's worth, are left out. They only help.\n")
	b.p("A run can be repeated by its seed. A fleet of 1,024 is one of the unit tests. `make fleet-page` writes this page. A test of `internal/tenure` compares the rows that take seconds with the code.\n")
}

// lives writes the section on fleets in the events of their lives.
func (b *paperWriter) lives() {
	b.p("## Whole lives\n")
	b.p("- **Cold start**: all agents start within one second, on free node IDs.")
	b.p("- **Outage**: DynamoDB answers nothing but errors for 5 minutes. No agent is restarted. All are suspended and continue to send requests. The time is from the end of the outage until the last agent is confirmed.")
	b.p("- **Rolling deploy**: a tenth of the agents stop, each when it would renew, and as many start within a second. The next tenth follows when all of these are done. An agent that finds no free node ID waits for one that is released.\n")
	b.p("The column *writes an agent* includes refused writes, which are billed, writes of the [note](architecture.md#how-a-claimant-waits) for waiting claimants, and the renewals of that time. The next column leaves renewals out. Prices are those of [cost](cost.md).\n")

	for _, c := range []struct {
		title string
		paperCase
	}{
		{"1,024 agents, a new table (4 partitions), the defaults: leases of 15 s", paperCase{agents: 1024, partitions: 4, fresh: true}},
		{"65,528 agents, a table warmed to 32 partitions, the defaults", paperCase{agents: 65528, partitions: 32}},
		{"65,528 agents, a new table (4 partitions), leases of 90 s", paperCase{agents: 65528, partitions: 4, ttl: 90 * time.Second}},
	} {
		c.policy, c.seed = ours, 1
		b.p("### %s\n", c.title)
		b.head("")
		w, r := coldStart(c.paperCase)
		b.row("cold start", r)
		b.row("5-minute outage", outage(w, 5*time.Minute))
		b.row("rolling deploy", rolling(w))
		if err := w.check(); err != nil {
			b.p("**%v**", err)
		}
		b.p("")
	}
}

// firstStarts writes the table of starts on a pool that was never used.
func (b *paperWriter) firstStarts() {
	b.p("In the last two tables, the pool was in use before, so its groups are open. A pool that was never used has one open group, from which all agents make their first guess. The number of open groups doubles as they fill. With `Expect`, the groups for the fleet are open from the start:\n")
	b.head("first start ever, leases of 15 s")
	for _, c := range []paperCase{
		{agents: 8192, size: 8192, partitions: 4},
		{agents: 8192, size: 8192, partitions: 4, expect: 8192},
		{agents: 8192, size: 12288, partitions: 4},
		{agents: 8192, size: 12288, partitions: 4, expect: 8192},
		{agents: 49152, size: 65536, partitions: 32},
		{agents: 49152, size: 65536, partitions: 32, expect: 49152},
		{agents: 65528, partitions: 32},
	} {
		c.fresh, c.policy, c.seed = true, ours, 1
		w, r := coldStart(c)
		what := fmt.Sprintf("%d on a pool of %d, %s", c.agents, w.pool.Size, plural(c.partitions, "partition"))
		if c.expect > 0 {
			what += ", with `Expect`"
		}
		b.row(what, r)
	}
	b.p("")
	b.p("Make a pool larger than its fleet. If a pool has exactly as many node IDs as the fleet has agents, the last claimants search for the last free ones. Each reads every group once, 16 at a start and as many a second, and then [ever more rarely](architecture.md#how-a-claimant-waits).\n")
	b.p("The write units that a fleet needs every second are its agents ÷ the seconds between renewals. 65,528 agents that renew every 5 s need 13,106, which is more than the 4,000 of a new table. Before such a fleet starts, give the table the")
	b.p("[warm throughput](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html) that it needs (as in the second table), or use longer leases (as in the third).\n")
}

func (b *paperWriter) retries() {
	b.p("## The defaults for retries\n")
	b.p("The agent uses full jitter from 50 ms up to 1 s. The tables compare it with other pauses, under the same seed:\n")
	for _, c := range []paperCase{{agents: 1024, partitions: 1}, {agents: 8192, partitions: 4, ttl: 30 * time.Second}} {
		b.p("\n### %d agents on %s\n", c.agents, plural(c.partitions, "partition"))
		b.head("pause before another try")
		for _, policy := range backoffs() {
			c.policy, c.seed = policy, 1
			w, r := coldStart(c)
			b.row("cold start, "+policy.name, r)
			b.row("outage, "+policy.name, outage(w, time.Minute))
		}
		b.p("")
	}
	b.p("- **Longer pauses** start no fleet sooner. After an outage, they keep the fleet suspended for as long as the longest pause: 5 or 20 s more, with leases of 15 s.")
	b.p("- **Shorter pauses** (always 50 ms) start no fleet sooner either, and need some three times the requests.")
	b.p("- **Without jitter**, the figures are alike, because latencies and throttles spread the agents here. Jitter costs nothing, and helps on tables where they do not.\n")
	b.p("So the default stays at full jitter, 50 ms to 1 s.\n")
}

func (b *paperWriter) spread() {
	b.p("## The default for the spread of renewals\n")
	b.p("1,024 agents that renew every 5 s make 205 writes a second if the renewals are evenly spread. Here all agents start cold within one second, on a table with one partition. The table shows the highest number of writes in any one second of the following minute:\n")
	b.p("| each renewal is early or late by | most writes in a second | most throttled in a second |\n|---|---|---|")
	first := ours
	first.name = "10 %, the first after a start or an outage 50 %"
	for _, policy := range append(jitters(), first) {
		_, r := coldStart(paperCase{agents: 1024, partitions: 1, policy: policy, seed: 1})
		b.logf("jitter %s: %d %d", policy.name, r.steady, r.throttles)
		b.p("| %s | %d | %d |", policy.name, r.steady, r.throttles)
	}
	b.p("\nWithout jitter, the fleet stays in step forever. With 10 %% more or less, it is out of step within minutes, and with 50 %%, within one minute. But a renewal has 8 s for retries, and with 50 %%, each late renewal would use up 2.5 s of them. So only the")
	b.p("first renewal after a start or an outage comes at any time of an interval. It takes the fleet out of step at once. The other renewals are early or late by 10 %%.")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n, " ", what, "s")
}

// short returns a duration with up to three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
