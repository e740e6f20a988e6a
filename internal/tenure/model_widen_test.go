package tenure

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// This file has widening in the model. A pool of 2 node IDs of one bit grows to 4 and
// then to 8 node IDs while its processes make IDs. As in the rest of the model, the real
// code makes the decisions: the writes' Apply, PoolItem, Term, Learn, and the steps of a
// widening that leasepool.Widen runs. The model chooses when each step is taken: its
// wideners can stop anywhere, and act on old reads.

const modelBits = 3 // at the end

// widener is a widener of the pool, with its progress.
type widener struct {
	w     *world
	pool  protocol.PoolItem // as last read
	run   *protocol.Widener // the try for which it marks node IDs; nil if there is none
	waits *message          // the latest request about the pool's item
}

// stamped is an ID and the node ID that it was decoded to when it was made.
type stamped struct {
	id   snowflake.ID
	node int
}

// narrowPool makes the pool of a narrow world.
func (w *world) narrowPool() {
	w.pool, _ = protocol.CreatePool{Pool: modelPool, Size: 1 << modelBits, OpenGroups: 1, NodeBits: 1, ExistBelow: 2}.Apply(nil)
	w.cards = []protocol.PoolItem{w.pool}
	w.table = make([]*protocol.Lease, 1<<modelBits)
	w.wideners = []*widener{{w: w}, {w: w}}
	w.apply(protocol.Seed{Key: protocol.Key{Pool: modelPool, NodeID: 0}, Floor: time.Unix(0, w.now)})
}

// applyPool is the store: it applies one write of the pool's item, in one step. A commit
// changes how IDs are decoded, but must not change how the IDs that were made before are
// decoded.
func (w *world) applyPool(wr protocol.PoolWrite) {
	p, ok := wr.Apply(&w.pool)
	if !ok {
		return
	}
	w.pool = p
	w.cards = append(w.cards, p)
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

// decompose decodes an ID of a narrow world.
func (w *world) decompose(id snowflake.ID) snowflake.Parts {
	parts := w.pool.Eras.Decompose(w.layout, id)
	w.stamps = append(w.stamps, stamped{id, parts.Node})
	return parts
}

// card returns the pool's item as a process that starts sees it: the present item, or a
// hint card, which may have any age. A newer card is likelier than an older one.
func (w *world) card() protocol.PoolItem {
	back := int(w.dice.ExpFloat64() * 3)
	if !w.narrow || back == 0 || back >= len(w.cards) {
		return w.pool
	}
	old := w.cards[len(w.cards)-1-back]
	if !protocol.HintEnough(old) {
		return w.pool
	}
	w.count.hinted++
	return old
}

// read requests the pool's item. The answer may be old when it arrives.
func (p *process) read() {
	p.reads = &message{from: p, read: true}
	p.w.send(p.reads)
}

// unstick is the reaction of a process that an open try keeps from reserving enough. It
// does what uncap of an agent does, but step by step, with the network in between.
func (p *process) unstick() {
	if !p.cfg.Capped(p.pool, p.timeline.Now()) {
		return
	}
	if p.w.r.IntN(3) > 0 {
		p.read()
		return
	}
	p.reads = &message{from: p, poolWrite: protocol.VoidWiden{Pool: modelPool, Try: p.pool.Widening.Try}}
	p.w.send(p.reads)
}

// act makes the widener take its next step.
func (d *widener) act() {
	r, at := d.w.r, time.Unix(0, d.w.now)
	if d.pool.Pool == "" || r.IntN(8) == 0 {
		d.ask(&message{read: true})
		return
	}
	if d.run == nil {
		d.rest(at)
		return
	}
	if commit, all := d.run.Commit(); all {
		d.ask(&message{poolWrite: commit})
		return
	}
	if n := r.IntN(d.run.Pool().ExistBelow); d.run.Left(n) {
		d.w.send(&message{widener: d, write: d.run.Mark(n, at)})
	}
}

// rest takes the next step of a widener that has no try to mark node IDs for. The item that
// the widener has read may be old.
func (d *widener) rest(at time.Time) {
	r := d.w.r
	if d.run = protocol.NewWidener(d.pool); d.run != nil {
		return
	}
	if add, some := protocol.Missing(d.pool, 1<<modelBits); some && r.IntN(2) == 0 {
		d.ask(&message{poolWrite: add})
		return
	}
	if d.pool.Bits() < modelBits && r.IntN(20) == 0 {
		begin := protocol.NextTry(d.pool, nil, at, 0)
		begin.From, begin.Bits = d.begin(), d.pool.Bits()+1 // any time, and one bit more without regard to groups
		d.ask(&message{poolWrite: begin})
		return
	}
	d.w.send(&message{write: protocol.SeedOf(d.pool, r.IntN(d.pool.ExistBelow), at)})
}

// begin returns a random moment after the last change.
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

// hear handles an answer.
func (d *widener) hear(m *message) {
	if mark, ok := m.write.(protocol.Mark); ok {
		if d.run == nil {
			return
		}
		err := d.run.Heard(mark, m.result)
		if errors.Is(err, protocol.ErrReserved) {
			d.w.send(&message{poolWrite: d.run.Void()})
		}
		if err != nil {
			d.run = nil
		}
		return
	}
	if m != d.waits {
		return
	}
	d.pool = m.pool
	if d.run != nil && d.run.Pool().Widening != d.pool.Widening {
		d.run = nil
	}
}
