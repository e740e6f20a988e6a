package lease

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/history"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Widening in the model: a pool of 2 numbers of one bit that becomes one of 4 and
// then of 8, while its processes make IDs. What decides is the code itself here
// too: the writes' Apply, PoolItem, term and Agent.learn. Wideners are the model's
// own, since they can stop anywhere, and act on what they read long ago.

const modelBits = 3 // at the end

// widener is whoever widens the pool, as far as it has come.
type widener struct {
	w     *world
	pool  protocol.PoolItem // as last read
	try   int64             // that it marks for; 0: none
	seen  map[int]bool
	waits *message // the latest request about the pool's item
}

// stamped is an ID and who it is of, as taken apart when it was made.
type stamped struct {
	id   snowflake.ID
	node int
}

// narrowPool makes the pool of a narrow world.
func (w *world) narrowPool() {
	w.pool, _ = protocol.CreatePool{Pool: modelPool, Size: 1 << modelBits, OpenGroups: 1, NodeBits: 1, Numbers: 2}.Apply(nil)
	w.table = make([]*Lease, 1<<modelBits)
	w.wideners = []*widener{{w: w}, {w: w}}
	w.apply(protocol.Seed{Key: protocol.Key{Pool: modelPool, NodeID: 0}, Floor: time.Unix(0, w.now)})
}

// applyPool is the store: one write of the pool's item, one step. A commit says
// how every ID is to be taken apart: those that were made already must not change.
func (w *world) applyPool(wr protocol.PoolWrite) {
	p, ok := wr.Apply(&w.pool)
	if !ok {
		return
	}
	w.pool = p
	w.note(history.Event{Kind: history.Note, Text: fmt.Sprintf("%T: %+v", wr, p.Widening)})
	if _, commit := wr.(protocol.CommitWiden); !commit {
		return
	}
	w.count.widened++
	for _, s := range w.stamps {
		if node := p.Eras.Decompose(w.layout, s.id).Node; node != s.node {
			panic(violation{fmt.Errorf("ID %d of node %d is node %d's by the history %+v", s.id, s.node, node, p.Eras)})
		}
	}
}

// decompose takes an ID of a narrow world apart.
func (w *world) decompose(id snowflake.ID) snowflake.Parts {
	parts := w.pool.Eras.Decompose(w.layout, id)
	w.stamps = append(w.stamps, stamped{id, parts.Node})
	return parts
}

// read asks for the pool's item; the answer may be old when it comes.
func (p *process) read() {
	p.reads = &message{from: p, read: true}
	p.w.send(p.reads)
}

// unstick is what a process does that an open try keeps from reserving enough:
// Agent.uncap, with the network in between.
func (p *process) unstick() {
	until := p.timeline.Now().Add(p.agent.cfg.Reserve)
	if p.agent.pool.Capped(until).Equal(until) {
		return
	}
	if p.w.r.IntN(3) > 0 {
		p.read()
		return
	}
	p.reads = &message{from: p, poolWrite: protocol.VoidWiden{Pool: modelPool, Try: p.agent.pool.Widening.Try}}
	p.w.send(p.reads)
}

// act lets the widener do its next thing.
func (d *widener) act() {
	r, state := d.w.r, d.pool.Widening.State
	switch {
	case d.pool.Pool == "" || r.IntN(8) == 0:
		d.ask(&message{read: true})
	case d.try == 0 && state == protocol.WidenOpen:
		d.try, d.seen = d.pool.Widening.Try, map[int]bool{}
	case d.try == 0 && d.pool.Bits() < modelBits && r.IntN(20) == 0:
		d.ask(&message{poolWrite: protocol.BeginWiden{Pool: modelPool, Try: d.pool.Widening.Try + 1, Seen: state, From: d.begin(), Bits: d.pool.Bits() + 1}})
	case d.try == 0 && d.pool.Numbers < 1<<d.pool.Bits() && r.IntN(2) == 0:
		d.ask(&message{poolWrite: protocol.AddNumbers{Pool: modelPool, From: d.pool.Numbers, To: 1 << d.pool.Bits(), Try: d.pool.Widening.Try}})
	case d.try == 0: // on old sight, perhaps
		d.w.send(&message{write: protocol.Seed{
			Key: protocol.Key{Pool: modelPool, NodeID: r.IntN(d.pool.Numbers)}, Floor: protocol.Latest(time.Unix(0, d.w.now), d.pool.Changed()), Layout: d.pool.Widening.Try,
		}})
	case len(d.seen) == d.pool.Numbers:
		w := d.pool.Widening
		d.ask(&message{poolWrite: protocol.CommitWiden{Pool: modelPool, Try: w.Try, From: w.From, Bits: w.Bits}})
	default:
		if n := r.IntN(d.pool.Numbers); !d.seen[n] {
			d.w.send(&message{widener: d, write: protocol.Mark{Key: protocol.Key{Pool: modelPool, NodeID: n}, Try: d.try, From: d.pool.Widening.From, Floor: protocol.Latest(time.Unix(0, d.w.now), d.pool.Changed())}})
		}
	}
}

// begin is any moment, as long as it is behind the last change.
func (d *widener) begin() time.Time {
	at := time.Unix(0, d.w.now).Add(time.Duration(d.w.r.Int64N(int64(2 * time.Minute))))
	if d.w.r.IntN(2) == 0 {
		for _, l := range d.w.table {
			if l != nil {
				at = protocol.Latest(at, l.ReservedUntil.Add(time.Duration(d.w.r.Int64N(int64(time.Minute)))))
			}
		}
	}
	return protocol.Latest(at, d.pool.Changed().Add(time.Millisecond)).Truncate(time.Millisecond)
}

func (d *widener) ask(m *message) {
	m.widener, d.waits = d, m
	d.w.send(m)
}

// hear takes an answer.
func (d *widener) hear(m *message) {
	mark, isMark := m.write.(protocol.Mark)
	switch {
	case isMark && mark.Try != d.try:
	case isMark && (m.result.Applied || m.result.Lease.Layout == d.try):
		d.seen[mark.NodeID] = true
	case isMark:
		if m.result.Lease.Layout < d.try {
			d.w.send(&message{poolWrite: protocol.VoidWiden{Pool: modelPool, Try: d.try}})
		}
		d.try = 0
	case m == d.waits:
		d.pool = m.pool
		if d.pool.Widening.Try != d.try || d.pool.Widening.State != protocol.WidenOpen {
			d.try = 0
		}
	}
}
