package growth

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// process models an agent with a generator. It makes the same requests as an agent of pkg/lease.
type process struct {
	f       *Fleet
	version int // the deployed version that it runs
	began   time.Duration
	known   protocol.PoolItem
	search  tenure.Search
	term    *tenure.Term
	room    tenure.Room
	stepped bool               // whether the next renewal is the first one
	counted *protocol.PoolItem // the pool's item with this process's measurement
	over    bool
	at      int // index in f.live
}

// start returns a function that starts a process with a deployed version.
func (f *Fleet) start(version int) func() {
	return func() {
		p := &process{f: f, version: version, began: f.now, search: tenure.Search{Dice: f.dice}}
		p.read()
		session := f.session()
		node, _ := tenure.Guess(session, p.known)
		p.claim(node, session)
		p.choose()
	}
}

func (f *Fleet) session() string { return fmt.Sprintf("%016x", f.dice.Uint64()) }

func (p *process) read() {
	p.f.Units += itemUnits
	p.known = p.f.pool
}

// claim tries one node ID.
func (p *process) claim(node int, session string) {
	f := p.f
	f.Claims++
	w := f.Timings.Claim(protocol.Key{Pool: "orders", NodeID: node}, session, f.wall(), p.known)
	p.term = f.Timings.Claimed(w, f.write(w), f.now, f.now)
}

// choose searches until the process has a node ID.
func (p *process) choose() {
	f := p.f
	for p.term == nil {
		c := f.Timings.Claim(protocol.Key{}, "", f.wall(), p.known)
		free := p.look(c)
		if free < 0 {
			f.Waits++
			p.search.Waiting = true
			f.in(time.Second/2+f.some(time.Second), func() { p.read(); p.choose() })
			return
		}
		p.claim(free, f.session())
	}
	f.account()
	f.LongestWait = max(f.LongestWait, f.now-p.began)
	p.at, p.stepped = len(f.live), true
	f.live = append(f.live, p)
	if f.Life != nil {
		f.in(f.Life(f.dice), p.crash)
	}
	p.rest()
}

// look searches the open groups for a node ID that c could claim, and returns it, or a
// negative number if there is none.
func (p *process) look(c protocol.Claim) (node int) {
	f := p.f
	p.search.Begin()
	for n, ok := p.search.Group(p.known, c.At); ok; n, ok = p.search.Group(p.known, c.At) {
		f.Units += groupUnits / 2 // eventually consistent
		one := tenure.Outlook{}
		free := one.Add(protocol.Group{Leases: f.items[n*protocol.GroupSize : min((n+1)*protocol.GroupSize, len(f.items))]}, p.known, c)
		if len(free) == 0 {
			p.search.FoundFull(n, one.Next)
		}
		if _, last := p.known.GroupsOpen(); n == last && one.Crowded(false) && last+1 < p.known.Groups() {
			p.open(last)
		}
		if len(free) > 0 {
			return free[f.dice.IntN(len(free))]
		}
	}
	return -1
}

// open opens the next groups if last is still the last open group, that is, if no other process has
// opened groups.
func (p *process) open(last int) {
	p.read()
	if _, now := p.known.GroupsOpen(); now == last {
		p.f.Writes++
		w := protocol.OpenGroups{Pool: "orders", From: p.known.OpenGroups, To: protocol.OpenNext(p.known)}
		if item, ok := w.Apply(&p.f.pool); ok {
			p.f.pool, p.known = item, item
		}
	}
	p.search.Opened(last + 1)
}

// rest waits until the next renewal is due.
func (p *process) rest() {
	f := p.f
	due := f.Timings.Pause(p.term, f.now)
	due = due - due/10 + f.some(due/5)
	if p.stepped {
		due = f.Timings.FirstIn(p.term.Length, p.term.Deadline-f.now, f.dice.Float64())
	}
	f.in(due, func() { p.stepped = false; p.due() })
}

// due renews the lease. It postpones the renewal if the lease may no longer grow and a renewal would
// make it shorter.
func (p *process) due() {
	if p.over {
		return
	}
	f := p.f
	p.measure()
	want := p.length()
	if left := p.term.Postponed(f.now); left > 0 && want.Lease <= f.Timings.TTL {
		f.in(min(left, time.Minute+f.some(time.Minute)), p.due)
		return
	}
	a, ok := p.term.Attempt(f.now, f.wall(), p.known, want)
	if !ok {
		f.Wrong = fmt.Errorf("node %d has no renewal to send", p.term.Lease.NodeID)
		return
	}
	if !p.term.Held(f.now) {
		f.Wrong = fmt.Errorf("node %d was renewed after its deadline", p.term.Lease.NodeID)
	}
	f.Renewals++
	res := f.write(a.Write)
	if !res.Applied {
		f.Wrong = fmt.Errorf("node %d: a renewal was refused: %+v", p.term.Lease.NodeID, res.Lease)
		return
	}
	p.term.Confirmed(*res.Lease, a.M0, a.Length)
	p.rest()
}

func (p *process) age() time.Duration { return p.f.now - p.term.Began }

// length returns the length that the next renewal requests.
func (p *process) length() tenure.Length {
	t := p.f.Timings
	if !t.Grows() || !p.room.Grows(p.f.wall(), t.MaxSkew()) {
		return t.Short()
	}
	return t.Grown(p.age())
}

// measure reads the pool's measurement if a read is due, and counts the pool's leases if it is this
// process's turn.
func (p *process) measure() {
	f := p.f
	if p.counted != nil {
		p.room.Learn(*p.counted)
		p.counted = nil
	}
	if !f.Timings.Grows() || !p.room.Due(f.Timings, p.age(), f.now) {
		return
	}
	p.room.Asked(f.now)
	f.Units += itemUnits / 2.0 // eventually consistent
	p.room.Learn(f.pool)
	if !p.room.Turn(f.pool, f.wall(), f.Timings.MaxSkew(), f.dice.Float64()) {
		return
	}
	first, last := f.pool.GroupsOpen()
	f.Counts++
	f.Units += float64(last-first+1) * groupUnits / 2
	f.Writes++
	held, cooling := f.count()
	if f.measured(f.pool.Measured, tenure.Count(held, cooling, f.wall())) {
		item := f.pool
		p.counted = &item
	}
}

// end takes the process out of the fleet.
func (p *process) end() {
	f := p.f
	f.account()
	p.over = true
	last := len(f.live) - 1
	f.live[p.at] = f.live[last]
	f.live[p.at].at = p.at
	f.live = f.live[:last]
}

// stop releases the node ID.
func (p *process) stop() {
	if !p.over {
		p.end()
		p.f.write(p.term.Release(p.f.wall()))
	}
}

// crash ends the process without a release. Another process takes its place at once.
func (p *process) crash() {
	if p.over {
		return
	}
	f := p.f
	p.end()
	f.Crashes++
	l := f.items[p.term.Lease.NodeID]
	// Claimants wait until both of these times have passed. Then rested checks all conditions of a
	// claim.
	free := protocol.Latest(l.ReservedUntil.Add(-f.Timings.ClaimGuard), l.ExpiresAt.Add(f.Timings.ClaimGuard+time.Millisecond))
	rest := free.Sub(f.wall())
	// Invariant: a crashed process's node ID rests for at most half of the process's age, or,
	// if that is longer, as long as after a short lease.
	if most := max(p.age()/2, f.Timings.TTL+f.Timings.ClaimGuard) + time.Millisecond; rest > most {
		f.Wrong = fmt.Errorf("node %d of a process of %v rests for %v, want at most %v", l.NodeID, p.age(), rest, most)
	}
	f.resting++
	f.Rest, f.LongestRest = f.Rest+rest, max(f.LongestRest, rest)
	f.in(rest, func() { f.rested(l) })
	if f.Functions {
		f.in(l.ExpiresAt.Sub(f.wall())+time.Minute+f.some(time.Minute), func() { f.reap(l) })
	}
	f.start(p.version)()
}
