package tenure

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// process is one process of the model. It claims, renews and releases as an agent does, in
// single steps, between which requests travel and time passes.
//
//	idle ──claim──▶ claiming ──answer──▶ running ──release──▶ closing ──▶ gone
//	  ▲               │ taken, too late    │ taken
//	  └───────────────┴────────────────────┘
type process struct {
	w     *world
	name  int
	slot  int
	state processState
	cfg   modelConfig
	pool  protocol.PoolItem // as last read
	clock *modelClock
	ids   *snowflake.Generator
	block *snowflake.Block

	timeline *snowflake.Timeline
	tries    int
	session  string
	node     int
	first    time.Duration
	term     *Term
	release  protocol.Write
	last     time.Time // the last stamped millisecond, once closed
	waitsFor *message  // the latest request: earlier ones have timed out
	reads    *message  // the latest read of the pool's item
	asked    Length    // the length that the newest renewal requested
	begun    bool      // the reservation of the previous holder has passed
	believes bool

	busy   bool // its loop runs, or a lock is held
	making bool // a generator call runs
	asleep bool // a generator call waits: a second call would wait for this one
}

type processState int

const (
	idle processState = iota
	claiming
	running
	closing
	gone
)

func newProcess(w *world, slot, name int) *process {
	p := &process{w: w, slot: slot, name: name}
	p.clock = newModelClock(p)
	p.cfg = w.configs[w.r.IntN(len(w.configs))]
	p.timeline = snowflake.NewTimeline(p.clock)
	p.pool = w.card()
	ids, err := snowflake.New(p.timeline, w.options...)
	if err != nil {
		panic(err)
	}
	p.ids, p.block = ids, ids.Block()
	return p
}

// act makes the loop of the process take its next step.
func (p *process) act() {
	p.busy = true
	defer func() { p.busy = false }()
	r := p.w.r
	switch p.state {
	case idle:
		if p.w.narrow && r.IntN(4) == 0 {
			p.read()
			return
		}
		p.try(r.IntN(len(p.w.table)))
	case claiming: // the request timed out
		switch r.IntN(8) {
		case 0:
			p.abandon()
		case 1, 2, 3:
			p.claim()
		}
	case running:
		switch n := r.IntN(20); {
		case p.cfg.stop && !p.term.Held(p.clock.Monotonic()):
			p.close()
		case n == 0:
			p.close()
		case n < 15 || !p.term.Held(p.clock.read()):
			p.renew()
		default:
			p.believe()
		}
	case closing:
		if r.IntN(3) == 0 {
			p.crash()
		} else {
			p.w.send(&message{from: p, write: p.release})
		}
	}
}

// try begins to claim a node ID, with a session of its own.
func (p *process) try(node int) {
	p.tries++
	p.reads = nil
	p.session = fmt.Sprintf("%d.%d", p.name, p.tries)
	p.w.sessions[p.session] = p
	p.node = node
	p.state = claiming
	p.first = p.clock.Monotonic()
	p.claim()
}

func (p *process) claim() {
	m0 := p.clock.Monotonic()
	p.waitsFor = &message{from: p, write: p.cfg.Claim(protocol.Key{Pool: modelPool, NodeID: p.node}, p.session, p.clock.Wall(), p.pool), m0: m0, first: p.first}
	p.w.send(p.waitsFor)
}

func (p *process) abandon() {
	p.w.count.abandoned++
	p.state = idle
	p.w.send(&message{from: p, write: protocol.Abandon{Key: protocol.Key{Pool: modelPool, NodeID: p.node}, Session: p.session}})
}

func (p *process) renew() {
	m0 := p.clock.Monotonic()
	now := p.timeline.Now
	if p.w.naked {
		now = p.clock.Wall
	}
	if p.w.narrow {
		p.unstick()
	}
	before := p.asked
	at, ok := p.term.Attempt(m0, now(), p.pool, p.length(m0))
	if !ok {
		return
	}
	if !protocol.Cap(p.pool).IsZero() {
		p.w.count.capped++
	}
	if at.Again {
		p.w.count.full++
	}
	p.asked = at.Length
	if at.Length.Lease > p.cfg.TTL {
		p.w.count.grown++
	}
	if at.Length.Lease < before.Lease {
		p.w.count.shrunk++
	}
	p.w.send(&message{from: p, write: at.Write, term: p.term, attempt: at})
}

// length returns the length that the next renewal requests. In a world with growth, the
// length does not follow the holder's age, since whether the pool has room may change at
// any time.
func (p *process) length(m0 time.Duration) Length {
	t := p.cfg.In(p.pool)
	if !p.w.grows {
		return t.Grown(m0 - p.term.Began)
	}
	if r := p.w.r; r.IntN(3) > 0 {
		l := t.Grown(time.Duration(r.Int64N(int64(12 * t.MaxTTL))))
		if r.IntN(4) == 0 { // a request for more than the reserve allows is shortened
			l.Lease = t.MaxTTL
		}
		return l
	}
	return t.Short()
}

// close fences and then releases the node ID.
func (p *process) close() {
	p.last = p.timeline.Close()
	p.disbelieve()
	p.state = closing
	p.release = p.term.Release(p.last)
	p.w.count.released++
	p.w.send(&message{from: p, write: p.release})
}

// crash ends the process at its current step; another one is started in its place.
func (p *process) crash() {
	p.disbelieve()
	p.state = gone
	p.w.restart(p.slot)
}

// hear handles an answer. Answers to renewals may come late and in any order. This is
// harder than in reality, where an agent has given up on all renewals but the last.
func (p *process) hear(m *message) {
	p.busy = true
	defer func() { p.busy = false }()
	if m == p.reads && p.state != claiming {
		known := p.pool
		p.pool = m.pool
		if _, err := Learn(p.timeline, known, m.pool); err != nil {
			panic(violation{err})
		}
	}
	switch m.write.(type) {
	case protocol.Claim:
		if p.state == claiming && p.waitsFor == m {
			p.claimed(m)
		}
	case protocol.Release, protocol.FreeCopy:
		if w, ok := p.term.ReleaseAgain(p.last, m.result.Lease); p.state == closing && !m.result.Applied && ok {
			p.release = w // a renewal had landed, and its answer was lost
		}
	case protocol.Renew:
		if p.state == running && p.term == m.term {
			p.renewed(m)
		}
	}
}

func (p *process) claimed(m *message) {
	t := p.cfg.Claimed(m.write.(protocol.Claim), m.result, m.m0, m.first)
	switch {
	case t == nil:
		p.state = idle
		p.news()
		return
	case !t.Held(p.clock.Monotonic()):
		p.abandon()
		return
	}
	p.w.count.claims++
	if !m.result.Applied {
		p.w.count.landed++
	}
	p.term, p.state, p.begun = t, running, false
	p.may()
	err := p.timeline.Bind(snowflake.Span{
		NodeID: p.node, Nodes: len(p.w.table), Eras: p.pool.Eras, NotBefore: t.Lease.NotBefore, Until: t.Lease.ReservedUntil, Deadline: t.IDDeadline,
	})
	if err != nil {
		panic(err)
	}
	p.believe()
}

func (p *process) renewed(m *message) {
	if !m.result.Applied {
		switch p.term.Refused(m.attempt, m.result.Lease) {
		case Landed:
			p.w.count.landed++
		case Stale:
			p.w.count.stale++
			p.news()
			return
		case Cloned: // there are no copies here
			panic(violation{fmt.Errorf("process %d takes renewal %d of node %d, which %+v refused, for one beside a copy's", p.name, m.attempt.Write.Renewal, p.node, *m.result.Lease)})
		case Taken:
			p.w.count.lost++
			p.timeline.Seal()
			p.disbelieve()
			p.w.note(history.Event{Kind: history.Lost, Who: p.name, Node: p.node, Version: p.term.Lease.Version})
			p.state = idle
			return
		}
	}
	p.w.count.renewals++
	before := p.term.Held(p.clock.read())
	length := m.attempt.Length
	if p.w.newest {
		length = p.asked
	}
	p.term.Confirmed(*m.result.Lease, m.attempt.M0, length)
	if !before && p.term.Held(p.clock.read()) {
		p.w.count.resumed++
	}
	p.may()
	p.timeline.Extend(p.term.Lease.ReservedUntil, p.term.IDDeadline)
	p.believe()
}

// news reads the pool's item after a refusal, since the item may have changed.
func (p *process) news() {
	if p.w.narrow {
		p.read()
		return
	}
	p.pool = p.w.pool
}

// may records the milliseconds that the process may stamp from now on.
func (p *process) may() {
	p.w.note(history.Event{Kind: history.May, Who: p.name, Node: p.node, Version: p.term.Lease.Version, Until: unixMS(p.term.Lease.ReservedUntil)})
}

// believe is a use of the lease, as with Agent.Lease. Other processes' beliefs end by
// themselves at their deadlines, so believe first ends the beliefs whose deadlines have
// passed.
func (p *process) believe() {
	for _, q := range p.w.slots {
		if q.believes && !q.term.Held(q.clock.read()) {
			q.disbelieve()
		}
	}
	p.begun = p.begun || !p.w.early || !p.clock.wall().Before(p.term.Lease.NotBefore)
	if p.begun && p.term.Held(p.clock.read()) && !p.believes {
		p.believes = true
		p.w.note(history.Event{Kind: history.Hold, Who: p.name, Node: p.node, Version: p.term.Lease.Version})
	}
}

func (p *process) disbelieve() {
	if p.believes {
		p.believes = false
		p.w.note(history.Event{Kind: history.Unhold, Who: p.name, Node: p.node})
	}
}

// make requests IDs in one of the ways that generators offer.
func (p *process) make() {
	p.making, p.clock.ended = true, false
	defer func() { p.making = false }()
	var ids [100]snowflake.ID
	n := 0
	one := func(next func() (snowflake.ID, error)) {
		var err error
		if ids[n], err = next(); err == nil {
			n++
		}
	}
	how := p.w.r.IntN(8)
	switch how {
	case 0:
		n, _ = p.ids.NextN(p.clock, ids[:1+p.w.r.IntN(len(ids))])
	case 1, 2:
		one(p.ids.Next)
	case 3:
		one(p.block.Next)
		one(p.block.Next)
	default:
		one(p.ids.TryNext)
	}
	for i, id := range ids[:n] {
		if id == 0 {
			panic(fmt.Sprint(i, " ", n, " ", how, " ", ids[:n]))
		}
		p.w.count.ids++
		parts := p.w.layout.Decompose(id)
		if p.w.narrow {
			parts = p.w.decompose(id)
		}
		// A tick of 10 ms is stamped as a whole, so any of its milliseconds is recorded.
		ms := parts.Time.UnixMilli() + p.w.r.Int64N(p.w.layout.Tick.Milliseconds())
		p.w.note(history.Event{Kind: history.Stamp, Who: p.name, Node: parts.Node, ID: int64(id), MS: ms})
	}
}
