package growth

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The prices of docs/cost.md. Another test recomputes the other tables of that page from them.
const (
	writePrice, readPrice = 0.625, 0.125
	hours                 = 730. // in a month
)

// crashing draws the lifetime of a process. In each hour, one in a thousand of the processes
// crashes.
func crashing(dice *rand.Rand) time.Duration {
	return time.Duration(dice.ExpFloat64() * float64(1000*time.Hour))
}

// A fleet whose leases grow costs what docs/cost.md states. The price of a month is the sum of
// two parts: the deploys, each with the twelve hours after it, and steady hours for the rest
// of the month. With -whole, four whole weeks are simulated instead, or one week for the
// largest fleet.
func TestCostOfLeasesThatGrow(t *testing.T) {
	t.Parallel()
	type month struct {
		deploys     string
		every       time.Duration
		least, most float64 // dollars
	}
	for _, c := range []struct {
		name          string
		holders, size int
		functions     bool
		months        []month
		deploys       int // how many deploys are simulated
		part          int // if not 0, how many of the fleet's processes are simulated
	}{
		{"1,024 on 4,096", 1024, 4096, true, []month{
			{"a deploy a week", week, 0, 8},
			{"a deploy a day", day, 0, 17},
		}, 1, 1},
		{"1,024 on 8,192", 1024, 8192, true, []month{{"a deploy a week", week, 0, 8}, {"a deploy a day", day, 0, 17}}, 1, 1},
		{"1,024 on 4,096, no functions", 1024, 4096, false, []month{{"a deploy a week", week, 0, 8.5}}, 2, 1},
		{"24,576 on 65,536", 24576, 65536, true, []month{{"a deploy a week", week, 0, 190}}, 1, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			part := c.part
			if *whole {
				part = 1
			}
			var f *Fleet
			var now time.Duration
			run := func(d time.Duration) Sum {
				now += d
				f.Run(now)
				return f.Take()
			}
			grown := func() {
				f, now = fleet(t, Config{Size: c.size / part, Expect: c.holders / part, Timings: grows(), Functions: c.functions, Life: crashing, Seed: 1}), 0
				f.Start(c.holders/part, time.Minute)
				run(12 * time.Hour)
			}
			var deploys, steady Sum // each covers 12 h
			if !*whole {
				grown()
				for range c.deploys {
					f.Deploy(30 * time.Minute)
					deploys = deploys.plus(run(12*time.Hour), 1/float64(c.deploys))
				}
				steady = steady.plus(run(6*time.Hour), 2)
			}
			for _, m := range c.months {
				var sum Sum
				if *whole {
					grown()
					weeks := 4 * week
					if c.part > 1 {
						weeks = week
					}
					for range weeks / m.every {
						f.Deploy(30 * time.Minute)
						sum = sum.plus(run(m.every), hours/weeks.Hours())
					}
				} else {
					n := hours / m.every.Hours() // deploys in a month
					sum = sum.plus(deploys, n).plus(steady, hours/12-n)
				}
				sum = Sum{}.plus(sum, float64(part))
				dollars := sum.Dollars(writePrice, readPrice)
				t.Logf("%s: %.2f million writes and %.2f million read units: %.2f dollars a month", m.deploys, sum.Writes/1e6, sum.Units/1e6, dollars)
				if dollars < m.least || dollars > m.most {
					t.Errorf("%s: got %.2f dollars a month, want %v to %v", m.deploys, dollars, m.least, m.most)
				}
				said(t, c.name+" | "+m.deploys, sum.Writes/1e6, sum.Units/1e6, dollars)
			}
		})
	}
}

// plus returns the requests of s plus times the requests of o.
func (s Sum) plus(o Sum, times float64) Sum {
	return Sum{Writes: s.Writes + o.Writes*times, Units: s.Units + o.Units*times}
}
