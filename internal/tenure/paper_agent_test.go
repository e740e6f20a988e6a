package tenure

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// paperAgent is an agent as a state machine. Each state is the request that is sent when
// the agent's turn comes. The answer is known at once, and the agent acts on it after a
// latency.
//
//	reads a card ─▶ reads pool ─▶ claims ─▶ holds ⟲ renews ─▶ releases ─▶ reads and writes the note
//	                      ▲        │ ▲
//	                      │   taken▼ │free
//	                      └────── looks ⇄ reads pool, opens groups
//	                               │ ▲
//	                               ▼ │
//	                              waits: see paper_wait_test.go
type paperAgent struct {
	state  paperState
	name   int
	tries  int           // attempts of the present request that had no answer
	number int           // the node ID that is claimed, or the group that is read
	part   protocol.Part // the part of that group
	claims int
	next   int32 // the next agent in the list of this millisecond
	begun  int64 // when it started, ms
	took   int64 // ms until it had a node ID
	away   bool  // counted as waiting for a node ID or for a confirmation
	inStep bool  // after its claim, or after requests without an answer
	search *Search
	wait   *Wait
	term   *Term
	known  protocol.PoolItem
	hinted bool // known was read from a hint card
	found  Outlook
}

type paperState uint8

const (
	paperGone paperState = iota
	paperStarts
	paperReads
	paperClaims
	paperLooks
	paperReadsAgain // to open groups
	paperOpens
	paperHolds
	paperReleases
	paperOffers // reads the note, after the release
	paperLeaves
	paperJoins // reads the note, in its first search
	paperPolls
	paperSays
	paperLooksAtOne
	paperReloads
)

// again backs off after an attempt that had no answer.
func (a *paperAgent) again(w *paper, i int32) {
	w.after(i, w.latency()+w.policy.backoff(w.dice, a.tries))
	a.tries++
}

// then lets the agent send its next request once the answer has arrived.
func (a *paperAgent) then(w *paper, i int32, s paperState) {
	a.state, a.tries = s, 0
	w.after(i, w.latency())
}

func (a *paperAgent) act(w *paper, i int32) {
	switch a.state {
	case paperStarts:
		if a.begun == 0 {
			a.begun = w.now
		}
		if !w.read(w.cards[w.dice.IntN(len(w.cards))], 0.5) { // each attempt reads any card
			a.again(w, i)
			return
		}
		if !protocol.HintEnough(w.card) {
			a.then(w, i, paperReads)
			return
		}
		a.known, a.hinted = w.card, true
		a.guess(w, i)
	case paperReads:
		if !w.read(w.table.of(paperPool), 1) {
			a.again(w, i)
			return
		}
		before := a.known.Revision
		a.known, a.hinted = w.pool, false
		switch {
		case a.search == nil:
			a.guess(w, i)
		case a.known.Revision == before: // the result of the search by the card still holds
			a.foundNone(w, i)
		default:
			a.begin()
			a.then(w, i, paperLooks)
		}
	case paperClaims:
		a.claim(w, i)
	case paperLooks:
		a.look(w, i)
	case paperReadsAgain:
		_, before := a.known.GroupsOpen()
		if !w.read(w.table.of(paperPool), 1) { // a refused write shows the groups as well
			a.then(w, i, paperOpens)
			return
		}
		if _, last := w.pool.GroupsOpen(); last == before {
			a.then(w, i, paperOpens)
			return
		}
		a.known, a.hinted = w.pool, false
		a.search.Opened(before + 1)
		a.choose(w, i)
	case paperOpens:
		if !w.write(w.table.of(paperPool)) {
			a.again(w, i)
			return
		}
		_, before := a.known.GroupsOpen()
		open := protocol.OpenGroups{Pool: paperPool, From: a.known.OpenGroups, To: protocol.OpenNext(a.known)}
		if p, ok := open.Apply(&w.pool); ok {
			w.pool = p
		} else {
			w.spent.refused++
		}
		a.known, a.hinted = w.pool, false
		a.search.Opened(before + 1)
		a.choose(w, i)
	case paperHolds:
		a.renew(w, i)
	case paperReleases:
		n := a.term.Lease.NodeID
		if !w.write(w.groups[n/protocol.GroupSize]) {
			a.again(w, i)
			return
		}
		if l, ok := a.term.Release(w.wall()).Apply(&w.leases[n]); ok {
			w.put(n, l)
		}
		a.then(w, i, paperOffers)
	default:
		a.waits(w, i)
	}
}

// guess claims blindly, unless the pool is known to be mostly taken.
func (a *paperAgent) guess(w *paper, i int32) {
	a.search, a.wait = &Search{Dice: w.dice, Parts: true}, &Wait{Dice: w.dice}
	if a.search.Taken = MostlyTaken(a.known, w.wall(), w.config.MaxSkew()); a.search.Taken {
		a.begin()
		a.then(w, i, paperLooks)
		return
	}
	a.number, _ = Guess(a.session(), a.known)
	a.then(w, i, paperClaims)
}

func (a *paperAgent) session() string { return fmt.Sprintf("%d.%d", a.name, a.claims) }

func (a *paperAgent) claimOf(w *paper) protocol.Claim {
	at := w.wall()
	return protocol.Claim{
		Key: protocol.Key{Pool: paperPool, NodeID: a.number}, Session: a.session(), At: at, ClaimGuard: w.config.ClaimGuard, TTL: w.config.TTL,
		ExpiresAt: at.Add(w.config.TTL), ReservedUntil: at.Add(w.config.Reserve),
	}
}

func (a *paperAgent) claim(w *paper, i int32) {
	if !w.write(w.groups[a.number/protocol.GroupSize]) {
		a.again(w, i)
		return
	}
	c := a.claimOf(w)
	l, ok := c.Apply(&w.leases[a.number])
	a.claims++
	if !ok {
		w.spent.refused++
		took := w.latency()
		a.search.Refused(a.number, w.monotonic()+took, took)
		if a.wait.On {
			a.nap(w, i)
			return
		}
		if node, ok := a.search.Second(w.monotonic() + took); ok {
			a.number, a.state, a.tries = node, paperClaims, 0
			w.after(i, took)
			return
		}
		a.begin()
		a.state, a.tries = paperLooks, 0
		w.after(i, took+a.search.Pause())
		return
	}
	if before := w.leases[a.number]; before.Holder == "" && before.Version > 0 {
		w.rested = append(w.rested, w.now-w.wrote[a.number])
	}
	w.put(a.number, l)
	a.term = NewTerm(w.config, l, w.monotonic())
	a.search, a.wait, a.state, a.tries, a.took = nil, nil, paperHolds, 0, w.now-a.begun
	w.unmet--
	a.inStep = true
	w.after(i, a.rest(w))
}

// rest returns the pause before the next renewal; see Agent.rest.
func (a *paperAgent) rest(w *paper) time.Duration {
	inStep := a.inStep
	a.inStep = false
	if inStep && !w.policy.together {
		return w.config.FirstIn(w.config.Short(), a.term.Deadline-w.monotonic(), w.dice.Float64())
	}
	return w.policy.jitter(w.dice, w.config.RenewEvery)
}

// begin begins a search.
func (a *paperAgent) begin() {
	a.search.Begin()
	a.found = Outlook{Free: -1}
}

// look reads the next group, if the search is not over; see Agent.look.
func (a *paperAgent) look(w *paper, i int32) {
	if a.tries == 0 { // a group whose read had no answer is read again
		var ok bool
		if a.number, a.part, ok = a.search.Next(a.known, w.wall()); !ok {
			a.foundNone(w, i)
			return
		}
	}
	n := a.number
	low, high := a.part.Bounds(n)
	high = min(high, w.pool.Size)
	if !w.read(w.groups[n], w.page(low, high)/2) { // eventually consistent
		a.again(w, i)
		return
	}
	one := Outlook{}
	c := a.claimOf(w)
	g := protocol.Group{Leases: w.eventual(low, high)}
	free := a.search.Believe(one.Add(g, a.known, c), w.monotonic())
	if a.part.Whole() {
		a.found.Merge(one)
	}
	if len(free) == 0 && a.part.Whole() {
		a.search.FoundFull(n, one.Next)
	}
	if len(free) > 0 {
		a.found.Free = a.search.Found(free, w.monotonic())
		a.wait.Spare(free, a.found.Free)
	}
	if _, last := a.known.GroupsOpen(); n == last && one.Crowded(!a.part.Whole()) && last+1 < a.known.Groups() {
		a.then(w, i, paperReadsAgain)
		return
	}
	if a.found.Free < 0 && a.wait.Joins(a.found.Groups, a.known) {
		a.then(w, i, paperJoins)
		return
	}
	a.choose(w, i)
}

// page returns the cost of reading some leases of a group, in units of 4 KB. The item of a
// node ID that was never leased has about 70 bytes, any other item about 300.
func (w *paper) page(low, high int) float64 {
	bytes := 0
	for _, l := range w.leases[low:high] {
		bytes += 70
		if l.Version > 0 {
			bytes += 230
		}
	}
	return float64((bytes + 4095) / 4096)
}

// choose claims the node ID that was found, or reads the next group.
func (a *paperAgent) choose(w *paper, i int32) {
	if a.found.Free >= 0 {
		a.number = a.found.Free
		a.then(w, i, paperClaims)
		return
	}
	a.then(w, i, paperLooks)
}

func (a *paperAgent) renew(w *paper, i int32) {
	n := a.term.Lease.NodeID
	at, _ := a.term.Attempt(w.monotonic(), w.wall(), a.known, w.config.Short()) // no widening is open here
	if !w.write(w.groups[n/protocol.GroupSize]) {
		a.again(w, i)
		return
	}
	w.spent.renewals++
	l, ok := at.Write.Apply(&w.leases[n])
	if !ok { // the node ID is someone else's: the agent ends, and the service starts another task
		w.spent.refused++
		w.spent.lost++
		if a.away {
			w.unmet--
		}
		w.start(i, time.Second)
		return
	}
	w.put(n, l)
	a.term.Confirmed(l, at.M0, at.Length)
	if a.away {
		a.away = false
		w.unmet--
	}
	a.inStep = a.inStep || a.tries > 0
	a.tries = 0
	if at.Again { // after a long outage, this renewal reserved too little; see Agent.renew
		w.after(i, w.latency())
		return
	}
	w.after(i, w.latency()+a.rest(w))
}
