package growth

import (
	"math/rand/v2"
	"testing"
	"time"
)

// rests compares a row of docs/cost.md with the simulation. It compares the ratio taken ÷
// live on average and at the worst moment, and the time in seconds for which a crashed
// process's node ID rests, on average and at most.
func rests(t *testing.T, name string, s Sum) (mean float64) {
	t.Helper()
	mean = s.Taken / s.Live
	t.Logf("%s: %d crashes, taken ÷ live %.3f, %.2f at worst; rests of %.1f s, %.1f s at most; %d failed searches",
		name, s.Crashes, mean, s.Worst, s.Rest.Seconds()/float64(s.Crashes), s.LongestRest.Seconds(), s.Waits)
	if s.LongestWait > 0 {
		t.Errorf("%d searches found no node ID, and a process waited for %v", s.Waits, s.LongestWait)
	}
	said(t, name, mean, s.Worst, s.Rest.Seconds()/float64(s.Crashes), s.LongestRest.Seconds())
	return mean
}

// All tasks die at the same moment and at the same age, again and again. Nothing in the
// table lasts for longer than a few lifetimes of a task, so simulating a part of a week has
// the same result as simulating the whole week.
func TestCrashLoops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		after, run  time.Duration
		mean, worst float64 // at most
	}{
		{"100 on 1,024, all die after 20 s", 20 * time.Second, 2 * time.Hour, 1.75, 2.1},
		{"100 on 1,024, all die after 60 s", time.Minute, 3 * time.Hour, 1.5, 2.1},
		{"100 on 1,024, all die after 5 min", 5 * time.Minute, 6 * time.Hour, 1.5, 2.1},
		{"100 on 1,024, all die after 1 h", time.Hour, day, 1.5, 2.1},
		{"100 on 1,024, all die after 1 day", day, 5 * day, 1 + 4./24, 2.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := c.run
			if *whole {
				run = max(week, c.run)
			}
			f := fleet(t, Config{Size: 1024, Expect: 100, Timings: grows(), Functions: true, Seed: 2,
				Life: func(*rand.Rand) time.Duration { return c.after }})
			f.Start(100, 0)
			f.Run(2 * c.after)
			f.Take()
			f.Run(2*c.after + run)
			s := f.Take()
			if mean := rests(t, c.name, s); mean > c.mean || s.Worst > c.worst {
				t.Errorf("taken ÷ live: got %.3f, and %.2f at worst, want %v and %v at most", mean, s.Worst, c.mean, c.worst)
			}
		})
	}
}

// Processes crash one by one, at any age.
func TestChurn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		mean, run time.Duration
	}{
		{"100 on 1,024, one by one, after 10 min on average", 10 * time.Minute, day},
		{"100 on 1,024, one by one, after 1 h on average", time.Hour, 3 * day},
		{"100 on 1,024, one by one, after 1 day on average", day, 10 * day},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, Config{Size: 1024, Expect: 100, Timings: grows(), Functions: true, Seed: 3,
				Life: func(dice *rand.Rand) time.Duration { return time.Duration(dice.ExpFloat64() * float64(c.mean)) }})
			f.Start(100, time.Minute)
			f.Run(12 * time.Hour)
			f.Take()
			f.Run(12*time.Hour + c.run)
			if mean, most := rests(t, c.name, f.Take()), 1.5+(16*time.Second).Seconds()/c.mean.Seconds(); mean > most {
				t.Errorf("taken ÷ live: got %.3f, want %.3f at most", mean, most)
			}
		})
	}
}

// The whole fleet dies again and again, at ages at which the largest possible number of node
// IDs rest at once.
func TestMassKills(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		size  int
		worst float64 // at most
	}{
		{"100 on 1,024, six mass kills", 1024, 8},
		{"100 on 400, six mass kills", 400, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, Config{Size: c.size, Expect: 100, Timings: grows(), Functions: true, Seed: 4})
			f.Start(100, 0)
			f.Run(massKills(f) + 12*time.Hour)
			s := f.Take()
			rests(t, c.name, s)
			if s.Worst > c.worst {
				t.Errorf("taken ÷ live: got %.2f at worst, want %v at most", s.Worst, c.worst)
			}
		})
	}
}

// The next groups are opened when the open ones fill with holders, not when they fill with
// node IDs that rest. So after many mass kills in a row, a process has to wait for the node
// ID of a process that died young, although the pool contains free node IDs in groups that
// are not open.
func TestMassKillsOfFewOpenGroups(t *testing.T) {
	t.Parallel()
	f := fleet(t, Config{Size: 4096, Expect: 300, Timings: grows(), Functions: true, Seed: 4})
	f.Start(300, 0)
	f.Run(massKills(f) + 12*time.Hour)
	s := f.Take()
	t.Logf("%d failed searches, a wait of %v", s.Waits, s.LongestWait)
	if want := 13 * time.Second; s.LongestWait > want { // this limit is stated in docs/cost.md
		t.Errorf("got a wait of %v, want %v at most", s.LongestWait, want)
	}
}

// massKills kills the fleet at ages at which the largest possible number of node IDs rest at
// once.
func massKills(f *Fleet) (now time.Duration) {
	for _, age := range []time.Duration{19000, 5540, 1630, 480, 165, 33} {
		now += age * time.Second
		f.Run(now)
		f.Kill()
	}
	return now
}
