package demo

import (
	"math/rand/v2"
	"slices"
	"time"
)

// action is something that is done to a task, or to the DynamoDB.
type action string

const (
	actKill   action = "kill -9"
	actFreeze action = "freeze"
	actStop   action = "stop" // SIGTERM: a graceful end, as in a deployment
	actClock  action = "clock"
	actOutage action = "outage"
)

// step is one action of the plan.
type step struct {
	at   time.Duration // since the fleet was started
	act  action
	slot int           // the target: a place in the fleet, not a process
	by   time.Duration // freeze, outage: how long; clock: how far, negative is back
	// lasts is how long it takes until the action is undone.
	lasts time.Duration
}

// makePlan plans the actions on each slot, depending only on the options and their seed.
// Actions on one slot do not overlap, and all are over before the end, so that the fleet
// is healthy when it ends.
func makePlan(o Options) []step {
	p := planner{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0)), free: make([]time.Duration, o.Tasks)}
	begin, end := o.Duration/10, o.Duration-max(o.Duration/10, time.Second)
	// Actions are frequent enough to be worth watching, but not so frequent that more node
	// IDs rest than are held.
	every := min(max(1300*time.Millisecond, 3*o.TTL/2/time.Duration(min(o.Tasks, o.Size))), o.Duration/8)
	if o.Outage {
		p.quietFrom = o.Duration * 9 / 20
		p.quietUntil = p.quietFrom + o.outage() + o.TTL/2
		p.steps = append(p.steps, step{at: p.quietFrom, act: actOutage, by: o.outage()})
	}
	// The first round begins with one action of each kind, the long ones first. Later rounds
	// are shuffled.
	round := []action{actFreeze, actKill, actClock, actStop, actKill, actFreeze, actClock, actKill}
	n := 0
	for at := begin; at < end; at += every {
		when := at + time.Duration(p.rng.Int64N(int64(every/2)))
		for range round { // an action that does not fit is skipped
			if n > 0 && n%len(round) == 0 {
				p.rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
			}
			n++
			if p.add(when, round[(n-1)%len(round)], end) {
				break
			}
		}
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return int(a.at - b.at) })
	return p.steps
}

type planner struct {
	Options
	rng                   *rand.Rand
	steps                 []step
	free                  []time.Duration // when the next action on each slot may begin
	quietFrom, quietUntil time.Duration   // no other action in this time, because of an outage
	freezes, clocks       int
}

// restart is how long a slot stays empty, and settle is how long a new task may need until
// it holds a node ID.
const (
	restart = 500 * time.Millisecond
	settle  = time.Second
)

// growsOld reports whether no action is planned on a slot before the outage. Half of the
// fleet is left alone, so that the leases of that half have grown by then.
func (p *planner) growsOld(slot int) bool { return slot < p.Tasks/2 }

// add plans one action, if there is room for it.
func (p *planner) add(at time.Duration, act action, end time.Duration) bool {
	s := step{at: at, act: act, slot: p.rng.IntN(p.Tasks)}
	busy := restart + settle
	switch act {
	case actFreeze:
		// Every other freeze is so long that the reaper frees the node ID, and the task
		// loses it. After a shorter freeze the lease has expired, but still belongs to the
		// task.
		s.by = p.TTL + p.claimGuard()/2
		if p.freezes%2 == 0 {
			s.by = p.TTL + p.claimGuard() + reapAfter + 1500*time.Millisecond
			// The slots alternate: the task of one claims another node ID after the
			// loss, and the task of the next one ends.
			s.slot = min(s.slot&^1|p.freezes/2%2, p.Tasks-1)
		}
		s.by += time.Duration(p.rng.Int64N(int64(p.claimGuard()/2 + 1)))
		s.lasts = s.by
	case actClock:
		// If the clock steps forward, the span ends early and the node ID rests longer
		// afterwards; if it steps back, IDs must not repeat. The directions alternate,
		// so that both are seen. Later the clock is set right, as time synchronization
		// does, which is a step in the other direction.
		s.by = p.skew() + time.Duration(p.rng.Int64N(int64(2*min(p.TTL, time.Minute))))
		if p.clocks%2 == 1 {
			s.by = -(time.Second + time.Duration(p.rng.Int64N(int64(time.Hour))))
		}
		s.by = s.by.Truncate(time.Millisecond)
		s.lasts = min(3*time.Second, p.Duration/8)
	}
	busy += s.lasts
	if at+busy > end || act == actFreeze && !canFreeze {
		return false
	}
	if at < p.quietUntil && at+busy > p.quietFrom {
		return false
	}
	for range p.Tasks {
		if p.free[s.slot] <= at && !(at < p.quietFrom && p.growsOld(s.slot)) {
			p.free[s.slot] = at + busy
			p.steps = append(p.steps, s)
			switch act {
			case actFreeze:
				p.freezes++
			case actClock:
				p.clocks++
			}
			return true
		}
		s.slot = (s.slot + 1) % p.Tasks
	}
	return false
}
