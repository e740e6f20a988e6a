package tenure

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/history"
)

// This file has the second simulation, which runs the protocol in one goroutine. The same
// seed repeats it bit for bit.
//
// The real code makes all decisions: Term, Timings, the Apply method of each write, and
// snowflake.Timeline with its generators. The model decides only the order of events: when
// each request is delivered, and whether once, twice or never; which answer arrives; which
// process runs next; and what the clocks show.
//
// A process may pause at any reading of a clock, while other processes and the network go
// on, so that the reading is old when it is used. So a process can stop for any time
// between m0 and sending its request, and a generator between checking the fence and
// drawing.

// world is one run of the model.
type world struct {
	weather
	r     *rand.Rand
	now   int64 // true time, Unix ns
	rec   history.Recorder
	depth int // of steps inside a reading of a clock
	count counts

	table    []*protocol.Lease
	slots    []*process
	sessions map[string]*process // the process of each session, including dead processes
	requests []*message          // on their way to the table
	answers  []*message          // on their way back
	looks    []protocol.Lease    // the observations of the reaper and the operator, on which they may act late
	born     int
	pool     protocol.PoolItem
	cards    []protocol.PoolItem // in a narrow world: all states that the pool's item has had
	dice     *rand.Rand          // chooses the card that a process starts with
	wideners []*widener
	stamps   []stamped // in a narrow world: the IDs made so far
}

// message is a write on its way to the table, and its answer on the way back.
type message struct {
	from      *process // nil if the reaper or an operator sent it
	write     protocol.Write
	term      *Term   // only for a renewal
	attempt   Attempt // only for a renewal
	m0, first time.Duration
	result    protocol.Result

	widener   *widener
	read      bool               // it is a read of the pool's item, not a write
	poolWrite protocol.PoolWrite // it is a write of the pool's item, if not nil
	pool      protocol.PoolItem  // the answer to a read or write of the pool's item
}

// violation is the panic that unwinds all nested steps when a promise is broken.
type violation struct{ error }

const modelPool = "p"

// newWorld returns the world of a seed.
func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 0x6c65617365))
	w := &world{r: r, now: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixNano(), sessions: map[string]*process{}, dice: rand.New(rand.NewPCG(seed, 2))}
	w.weather = newWeather(r)
	w.table = make([]*protocol.Lease, 1+r.IntN(4))
	w.note(history.Event{Kind: history.World, Bounded: w.bounded, Text: fmt.Sprintf("model seed %d", seed)})
	if w.narrow {
		w.narrowPool()
	}
	for n := range w.table {
		if !w.narrow {
			w.apply(protocol.Seed{Key: protocol.Key{Pool: modelPool, NodeID: n}, Floor: time.Unix(0, w.now)})
		}
	}
	w.slots = make([]*process, min(len(w.table), 4)+1+r.IntN(4))
	for i := range w.slots {
		w.restart(i)
	}
	return w
}

// run takes the given number of steps, but stops at a step that breaks a promise, and
// returns that as an error.
func (w *world) run(steps int) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			err = v
		default: // a mistake of the model, or of the code
			panic(v)
		}
	}()
	began := w.now
	for range steps {
		w.step()
	}
	w.count.hours = time.Duration(w.now-began) * time.Duration(len(w.slots))
	return nil
}

// step makes one thing happen.
func (w *world) step() {
	w.count.steps++
	switch n := w.r.IntN(100); {
	case n < 19:
		w.pass()
	case n < 20:
		w.race()
	case n < 42:
		w.deliver()
	case n < 62:
		w.answer()
	case n < 80:
		if p := w.slots[w.r.IntN(len(w.slots))]; !p.busy {
			p.act()
		}
	case n < 92:
		if p := w.slots[w.r.IntN(len(w.slots))]; !p.busy && !p.asleep {
			p.make()
		}
	case n < 95 && w.narrow:
		w.wideners[w.r.IntN(len(w.wideners))].act()
	case n < 97:
		if w.chance(w.operator) {
			w.operate()
		}
	default:
		if i := w.r.IntN(len(w.slots)); w.chance(w.crash) && !w.slots[i].busy && !w.slots[i].making {
			w.count.crashes++
			w.slots[i].crash()
		}
	}
}

func (w *world) chance(p float64) bool { return p > 0 && w.r.Float64() < p }

// pass lets time pass.
func (w *world) pass() {
	switch n := w.r.IntN(1000); {
	case n < 300:
		w.now += w.r.Int64N(int64(3 * time.Millisecond))
	case n < 700:
		w.now += w.r.Int64N(int64(time.Second))
	case n < 970:
		w.now += w.r.Int64N(int64(5 * time.Second))
	case n < 998:
		w.now += w.r.Int64N(int64(time.Minute))
	default: // long enough for the reservation of a clock that was far ahead to end
		w.now += w.r.Int64N(int64(6 * time.Hour))
	}
}

// race makes a process that has no node ID take one at the first moment at which its
// clock permits that, or makes a process begin to rely on its node ID at the first such
// moment. At these moments, the guards are only just long enough.
func (w *world) race() {
	l, p := w.table[w.r.IntN(len(w.table))], w.slots[w.r.IntN(len(w.slots))]
	if l == nil || p.busy || p.making || w.depth > 0 {
		return
	}
	if p.state == running && !p.begun {
		w.until(p, p.term.Lease.NotBefore)
		p.believe()
		return
	}
	at := l.ReservedUntil.Add(-p.cfg.ClaimGuard)
	if l.Holder != "" {
		at = protocol.Latest(at, l.ExpiresAt.Add(p.cfg.ClaimGuard))
	}
	if p.state != idle || !w.until(p, at.Add(time.Millisecond)) {
		return
	}
	p.busy = true
	p.try(l.NodeID)
	p.busy = false
	if m := p.waitsFor; p.state == claiming && len(w.requests) > 0 && w.requests[len(w.requests)-1] == m {
		w.requests = w.requests[:len(w.requests)-1]
		m.result = w.apply(m.write)
		p.hear(m)
	}
}

// until lets time pass up to the moment when a process's wall clock shows the time at, if
// that moment is soon.
func (w *world) until(p *process, at time.Time) bool {
	left := at.UnixNano() - w.now - p.clock.offset
	if left < 0 || left > int64(10*time.Minute) {
		return false
	}
	w.now += left
	return true
}

// send puts a message in flight. If too many are in flight, one is lost.
func (w *world) send(m *message) {
	w.requests = append(w.requests, m)
	if len(w.requests) > 30 {
		w.pick(&w.requests)
	}
}

// pick removes and returns any message, since messages may arrive in any order.
func (w *world) pick(from *[]*message) *message {
	if len(*from) == 0 {
		return nil
	}
	// Half of the time it takes the newest message, so that requests succeed at all.
	i := len(*from) - 1
	if w.r.IntN(2) == 0 {
		i = w.r.IntN(len(*from))
	}
	m := (*from)[i]
	*from = append((*from)[:i], (*from)[i+1:]...)
	return m
}

// deliver makes one request reach the table.
func (w *world) deliver() {
	m := w.pick(&w.requests)
	if m == nil || w.chance(w.loss) {
		return
	}
	if w.chance(w.repeat) {
		again := *m
		w.send(&again)
	}
	switch {
	case m.poolWrite != nil:
		w.applyPool(m.poolWrite)
	case !m.read:
		m.result = w.apply(m.write)
	}
	m.pool = w.pool
	if m.from != nil || m.widener != nil {
		w.answers = append(w.answers, m)
		if len(w.answers) > 30 {
			w.pick(&w.answers)
		}
	}
}

// answer delivers one answer to the process or widener that is waiting for it, or loses it.
func (w *world) answer() {
	m := w.pick(&w.answers)
	switch {
	case m == nil, w.chance(w.loss):
	case m.widener != nil:
		m.widener.hear(m)
	case !m.from.busy:
		m.from.hear(m)
	}
}

// apply is the store: it applies one write, in one step.
func (w *world) apply(wr protocol.Write) protocol.Result {
	n := wr.Item().NodeID
	l, ok := wr.Apply(w.table[n])
	if !ok {
		if w.table[n] == nil {
			return protocol.Result{}
		}
		old := w.table[n].Clone()
		return protocol.Result{Lease: &old}
	}
	w.table[n] = &l
	e := history.Event{
		Kind: history.Item, Node: n, Version: l.Version, Held: l.Holder != "", Renewal: l.Renewal,
		NotBefore: unixMS(l.NotBefore), Expires: unixMS(l.ExpiresAt), Until: unixMS(l.ReservedUntil),
	}
	if e.Held {
		e.Who = w.sessions[l.Holder].name
	}
	switch wr.(type) {
	case protocol.Seed:
		e.Op = history.Seed
	case protocol.Claim:
		e.Op = history.Claim
	case protocol.Renew:
		e.Op = history.Renew
	case protocol.Release:
		e.Op = history.Release
	case protocol.Abandon:
		e.Op = history.Abandon
	case protocol.Reap, protocol.ForceRelease, protocol.FreeCopy:
		e.Op = history.Free
		w.count.freed++
	case protocol.Retire:
		e.Op = history.Retire
	case protocol.Raise:
		e.Op = history.Raise
	case protocol.Mark:
		e.Op = history.Mark
	}
	w.note(e)
	copied := l.Clone()
	return protocol.Result{Applied: true, Lease: &copied}
}

// operate acts as the reaper, as an operator or as a process that seeds. Each acts on
// what it has read of the table, which may be old.
func (w *world) operate() {
	n := w.r.IntN(len(w.table))
	k := protocol.Key{Pool: modelPool, NodeID: n}
	if w.table[n] == nil {
		if n < 2 { // one of the node IDs that the pool began with
			w.send(&message{write: protocol.Seed{Key: k, Floor: time.Unix(0, w.now)}})
		}
		return
	}
	due := func(l *protocol.Lease) bool { return w.early || w.now > l.ExpiresAt.Add(50*time.Second).UnixNano() }
	if l := w.table[n]; l.Holder != "" && due(l) {
		w.looks = append(w.looks, l.Clone())
		if len(w.looks) > 8 {
			w.looks = w.looks[1:]
		}
	}
	var wr protocol.Write
	switch w.r.IntN(30) {
	case 0:
		if !due(w.table[n]) {
			return
		}
		wr = protocol.Raise{Key: k, To: time.Unix(0, w.now).Add(time.Duration(w.r.IntN(20)-5) * time.Second)}
	case 1:
		wr = protocol.Seed{Key: k, Floor: time.Unix(0, w.now)}
	case 2, 3, 4, 5:
		wr = protocol.Retire{Key: k, Retired: w.r.IntN(4) == 0, Resize: w.table[n].Resize + int64(w.r.IntN(3))}
	case 6, 7, 8:
		if w.marks {
			w.mark(n)
		}
		return
	default:
		if len(w.looks) == 0 {
			return
		}
		l := w.looks[w.r.IntN(len(w.looks))]
		k.NodeID = l.NodeID
		wr = protocol.Reap{Key: k, Holder: l.Holder, Version: l.Version, Renewal: l.Renewal}
		if w.early && w.r.IntN(3) == 0 { // it does not depend on the renewal: the holder may be back
			wr = protocol.ForceRelease{Key: k, Version: l.Version}
		}
	}
	w.send(&message{write: wr})
}

// mark marks a node ID with a width that no agent has seen yet.
func (w *world) mark(n int) {
	w.pool.Widening.Try++
	l := w.table[n].Clone()
	l.WidenTry = w.pool.Widening.Try
	w.table[n] = &l
}

// restart puts a new process into a slot.
func (w *world) restart(slot int) {
	w.born++
	w.depth += 10 // nothing else happens while the process is made
	defer func() { w.depth -= 10 }()
	w.slots[slot] = newProcess(w, slot, w.born)
}

// note adds an event to the history, and stops the world if the event breaks a promise.
func (w *world) note(e history.Event) {
	e.At = w.now / int64(time.Millisecond)
	if err := w.rec.Add(e); err != nil {
		panic(violation{err})
	}
}

// inside lets other things happen inside a reading of a clock by p.
func (w *world) inside(p *process) {
	if w.depth >= 2 || !w.chance(w.nesting) {
		return
	}
	w.count.nested++
	w.depth++
	defer func() { w.depth-- }()
	// The loop of p sometimes holds p's lock, and a generator that moves the anchor holds
	// the timeline's. Then nothing else of p can run.
	if !p.busy && holdsTimeline() {
		p.busy = true
		defer func() { p.busy = false }()
	}
	for range 1 + w.r.IntN(30) {
		w.step()
	}
}

// holdsTimeline reports whether a generator call is in code that holds the
// timeline's lock.
func holdsTimeline() bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		for _, name := range []string{").follow", ").begin", ").seal", ").adopt", ").verdict", ").turn", ").Widen", ").Bind", ").Extend", ").Seal", ").Close"} {
			if strings.HasSuffix(f.Function, name) {
				return true
			}
		}
		if !more {
			return false
		}
	}
}

func unixMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
