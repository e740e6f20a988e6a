package demo

import (
	"reflect"
	"testing"
	"time"
)

func options(change func(*Options)) Options {
	o := Defaults()
	change(&o)
	return o
}

func TestPlanRepeatsWithItsSeed(t *testing.T) {
	o := Defaults()
	o.Seed = 8
	first, second := makePlan(o), makePlan(o)
	if !reflect.DeepEqual(first, second) {
		t.Error("one seed made two plans")
	}
	o.Seed = 9
	if reflect.DeepEqual(first, makePlan(o)) {
		t.Error("two seeds made the same plan")
	}
}

// For many seeds, a plan keeps its promises: actions on one slot do not overlap, all are
// over before the end, no other action happens in an outage, and even the short demo has an
// action of each kind.
func TestPlan(t *testing.T) {
	for name, o := range map[string]Options{
		"default":    Defaults(),
		"outage":     OutageDefaults(),
		"25 s of it": options(func(o *Options) { o.Outage = true }),
		"short":      options(func(o *Options) { o.TTL, o.Duration = time.Second, 8*time.Second }),
		"five three": options(func(o *Options) { o.Tasks, o.Size = 5, 3 }),
	} {
		t.Run(name, func(t *testing.T) {
			for o.Seed = range 200 {
				checkPlan(t, o)
			}
		})
	}
}

func checkPlan(t *testing.T, o Options) {
	t.Helper()
	until := make([]time.Duration, o.Tasks)
	acts := map[action]int{}
	var quietFrom, quietUntil time.Duration
	for _, s := range makePlan(o) {
		if s.act == actOutage {
			quietFrom, quietUntil = s.at, s.at+s.by
		}
	}
	long := 0
	for _, s := range makePlan(o) {
		acts[s.act]++
		if s.act == actOutage {
			continue
		}
		if o.Outage && s.at < quietFrom && s.slot < o.Tasks/2 {
			t.Fatalf("seed %d: %+v: half of the fleet must stay untouched until the outage", o.Seed, s)
		}
		lasts := s.lasts
		if s.act == actFreeze {
			if s.by <= o.TTL {
				t.Fatalf("seed %d: a freeze of %v is shorter than the lease", o.Seed, s.by)
			}
			if s.by > o.TTL+o.claimGuard()+reapAfter {
				long++
			}
		}
		switch {
		case s.at < until[s.slot]:
			t.Fatalf("seed %d: %+v begins while slot %d is busy until %v", o.Seed, s, s.slot, until[s.slot])
		case s.at+lasts > o.Duration:
			t.Fatalf("seed %d: %+v is not over before the demo ends", o.Seed, s)
		case s.at < quietUntil && s.at+lasts > quietFrom:
			t.Fatalf("seed %d: %+v overlaps the outage", o.Seed, s)
		}
		until[s.slot] = s.at + lasts + restart
	}
	for _, act := range []action{actKill, actFreeze, actStop, actClock} {
		if acts[act] == 0 {
			t.Fatalf("seed %d: the plan has no %s", o.Seed, act)
		}
	}
	if long == 0 {
		t.Fatalf("seed %d: no freeze is long enough to be reaped", o.Seed)
	}
	if o.Outage != (acts[actOutage] == 1) {
		t.Fatalf("seed %d: %d outages", o.Seed, acts[actOutage])
	}
}

func TestPlanWithoutRoom(t *testing.T) {
	for name, o := range map[string]Options{
		"a lease longer than the demo": options(func(o *Options) { o.TTL = time.Hour }),
		"the shortest":                 options(func(o *Options) { o.Duration = 3 * time.Second }),
		"one task":                     options(func(o *Options) { o.Tasks, o.Size = 1, 1 }),
	} {
		for o.Seed = range 50 {
			for _, s := range makePlan(o) {
				if s.act == actFreeze && s.at+s.by > o.Duration || s.slot >= o.Tasks {
					t.Errorf("%s, seed %d: %+v", name, o.Seed, s)
				}
			}
		}
	}
}
