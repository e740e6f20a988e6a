package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

const (
	tableName = "leases"
	poolName  = "orders"
)

// World is one run. It lives in a synctest bubble: see [World.Run].
type World struct {
	Plan    Plan
	History history.Recorder

	ctx      context.Context // ends the world
	end      context.CancelCauseFunc
	troubles context.Context // ends the faults
	calm     context.CancelFunc

	r          *rand.Rand
	network    *network
	background sync.WaitGroup

	mu        sync.Mutex
	machines  int
	functions map[string]bool // the machines of functions
	broken    map[int]bool    // node IDs whose items somebody broke
	numbers   int             // of processes
	tasks     map[*task]bool
	running   map[*process]bool
	items     map[int]history.Event // as the table holds them; guarded by the network's serial
	raw       map[int]map[string]json.RawMessage
	claimed   map[int]time.Duration // the TTL of each claim; guarded likewise
	sessions  map[string]session    // of the cluster's nodes; guarded likewise
	refused   int                   // readers in a row; guarded likewise
	began     time.Time             // when the faults did
	size      string                // the pool's, as the table has it; guarded likewise
	copied    map[string][3]int64   // revision, verdict and count of each hint card; guarded likewise
	done      map[string]bool       // writes of operators; guarded likewise
	floor     time.Time             // the latest that anybody tried to raise the pool to

	release atomic.Int64            // that is deployed now: an index of Plan.Releases
	layout  snowflake.Layout        // of the pool's IDs
	seeded  bool                    // with that layout
	reaping atomic.Pointer[machine] // where the reaper runs; nil: there is none

	counting sync.Mutex
	counts   Counts
	beliefs  sync.Mutex

	widths sync.Mutex
	eras   snowflake.Eras       // of a narrow world's pool, as its table says
	made   map[snowflake.ID]int // by which node ID, as they were taken apart when they were made
}

// Run lives through a plan, inside of a synctest bubble, and returns the events.
// The error is the first promise that was broken.
func Run(p Plan) (*World, Counts, error) {
	w := &World{
		Plan: p, r: rand.New(rand.NewPCG(p.Seed, 4)), tasks: map[*task]bool{}, running: map[*process]bool{}, made: map[snowflake.ID]int{}, items: map[int]history.Event{}, raw: map[int]map[string]json.RawMessage{}, claimed: map[int]time.Duration{}, sessions: map[string]session{}, copied: map[string][3]int64{}, done: map[string]bool{}, functions: map[string]bool{}, broken: map[int]bool{},
		counts: newCounts(), layout: snowflake.Default(),
	}
	if p.Narrow {
		w.layout = snowflake.Wide16()
	}
	w.ctx, w.end = context.WithCancelCause(context.Background())
	w.troubles, w.calm = context.WithCancel(w.ctx)
	err := w.run()
	return w, w.counts, err
}

func (w *World) run() (err error) {
	// The bubble begins in 2000, before the layout's epoch.
	time.Sleep(time.Until(time.Date(2040, 1, 2, 0, 0, 0, 0, time.UTC)))
	w.note(history.Event{Kind: history.World, Bounded: w.Plan.Bounded(), Text: w.Plan.String()})
	db, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		return err
	}
	if w.Plan.has("epoch") {
		w.layout.Epoch = time.Now().Add(5 * time.Minute)
	}
	w.network = newNetwork(w, db)
	defer func() {
		w.network.calls.Wait() // those that are still to be delivered late
		err = errors.Join(err, db.Close())
	}()

	operator := w.newOperator()
	if err := w.seed(operator); err != nil {
		return err
	}
	for range w.Plan.Tasks {
		w.deploy()
	}
	w.began = time.Now()
	w.start()
	w.background.Go(w.watch)
	_ = sleep(w.ctx, w.Plan.Hours)
	w.calm()
	if w.ctx.Err() == nil {
		w.heal()
		_ = sleep(w.ctx, w.settling())
	}
	broken := context.Cause(w.ctx)
	if broken == nil {
		broken = w.liveness(operator)
	}
	for _, t := range w.all() {
		t.stop()
		<-t.ended
	}
	if broken == nil {
		broken = context.Cause(w.ctx) // while it closed
	}
	w.end(nil)
	w.background.Wait()
	time.Sleep(5 * time.Second) // virtual: what directories have under way ends by its own deadline
	return broken
}

// fail ends the world.
func (w *World) fail(err error) {
	if w.Plan.Ignore == nil || !w.Plan.Ignore.MatchString(err.Error()) {
		w.end(err)
	}
}

// seed makes the table and the pool.
func (w *World) seed(o *operator) error {
	if err := createTable(w.ctx, o.line()); err != nil {
		return err
	}
	spec := w.Plan.spec(w.Plan.Numbers)
	if w.seeded = w.Plan.has("layouts") || w.Plan.Seed%4 < 2; w.seeded {
		spec.Layout = w.layout
	}
	_, err := o.pool.Seed(w.ctx, spec)
	return err
}

// changes lets the weather change.
func (w *World) changes(ctx context.Context) {
	for ctx.Err() == nil {
		now := w.network.any(w.r.IntN)
		w.note(history.Event{Kind: history.Note, Text: now.name})
		w.network.become(now, "")
		_ = sleep(ctx, time.Duration(w.r.Int64N(int64(w.Plan.about(w.r.IntN))))+time.Second)
	}
}

// outages let the store be away for minutes, for everybody.
func (w *World) outages(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Plan.Seed, 7))
	for sleep(ctx, time.Duration(r.Int64N(int64(20*time.Minute)))) == nil {
		long := time.Duration(r.Int64N(int64(10 * time.Minute)))
		w.note(history.Event{Kind: history.Note, Text: "the store is away for " + long.String()})
		w.network.outage(true)
		_ = sleep(ctx, long)
		w.network.outage(false)
	}
}

// heal ends the faults: the network works, clocks that were wild are set right.
func (w *World) heal() {
	w.note(history.Event{Kind: history.Note, Text: "the faults end"})
	w.network.become(climate[0], "")
	for _, t := range w.all() {
		t.heal()
	}
}

// settling is how long after the faults every process that can have a node ID has one:
// the leases of the dead expire and their reservations pass, the last requests
// that were late have arrived, and whoever waits looks again.
func (w *World) settling() time.Duration {
	return 4*w.Plan.TTL() + w.Plan.Reserve() + 2*time.Minute
}

// again is within what time whoever has no node ID looks for one again: an orchestrator
// waits for a minute after a start that has failed.
const again = 90 * time.Second

// liveness judges that nobody waits for a node ID while one could be had. A node ID that has
// come free just now is waited for.
func (w *World) liveness(o *operator) error {
	for {
		fresh, err := w.judgeLiveness(o)
		if err == nil || fresh <= 0 {
			return err
		}
		_ = sleep(w.ctx, fresh)
	}
}

// judgeLiveness also returns how long it takes until the last number that has come free
// could have been found.
func (w *World) judgeLiveness(o *operator) (fresh time.Duration, err error) {
	waiting := 0
	for _, t := range w.all() {
		p := t.present.Load()
		if p == nil || !w.has(p) {
			waiting++
		} else if _, err := p.agent.Lease(); errors.Is(err, lease.ErrLost) && p.release.OnLost == lease.Reacquire {
			waiting++
		} else if node, _ := p.holding(); err != nil && !w.isBroken(node) && !w.claimedAhead(node) {
			return 0, fmt.Errorf("liveness: process %d has a number and may not use it %v after the faults: %w", p.number, w.settling(), err)
		}
	}
	stats, err := o.pool.Stats(w.ctx)
	if err != nil {
		return 0, fmt.Errorf("liveness: %w", err)
	}
	size := stats.Pool.Size
	if len(stats.Pool.Eras) > 0 {
		size = min(size, stats.Pool.Numbers)
	}
	free, resting := 0, 0
	for l, err := range o.pool.Leases(w.ctx) {
		if corrupt := (*lease.CorruptError)(nil); errors.As(err, &corrupt) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("liveness: %w", err)
		}
		if l.NodeID >= size { // a resize that was cut off is nobody's to use
			continue
		}
		switch lease.Lease(l).State(time.Now()) {
		case lease.Free, lease.Cooling, lease.Expired: // expired ones rest too, while anything is reserved
			if l.ReservedUntil.After(time.Now()) {
				resting++
			} else {
				free++
				fresh = max(fresh, again-time.Since(l.ReservedUntil))
			}
		}
	}
	if waiting > 0 && free > 0 {
		return fresh, fmt.Errorf("liveness: %v after the faults %d of %d tasks wait for a number, and %d could be had", w.settling(), waiting, w.Plan.Tasks, free)
	}
	if w.Plan.Bounded() && waiting > 0 && resting > 0 {
		return 0, fmt.Errorf("liveness: %v after the faults %d of %d tasks wait for a number, and %d rest though no clock was wrong", w.settling(), waiting, w.Plan.Tasks, resting)
	}
	return 0, nil
}

// claimedAhead reports whether a node ID was claimed by a clock that was ahead, and is still
// reserved for its last holder. Only where the store tells no time does a process keep one.
func (w *World) claimedAhead(node int) bool {
	w.network.serial.Lock()
	defer w.network.serial.Unlock()
	return !w.Plan.Dates && !w.Plan.Bounded() && w.items[node].NotBefore > time.Now().UnixMilli()
}

// raised is the time up to which the pool may have been raised by now.
func (w *World) raised(to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to.After(w.floor) {
		w.floor = to
	}
}

// raisedTo is the latest that the pool may have been raised to.
func (w *World) raisedTo() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.floor
}

func (w *World) newNumber() int {
	w.count(func(c *Counts) { c.Processes++ })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.numbers++
	return w.numbers
}

func (w *World) join(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[p] = true
}

func (w *World) leave(p *process) {
	w.mu.Lock()
	delete(w.running, p)
	w.mu.Unlock()
	w.forget(p)
}

func (w *World) has(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[p]
}

// processes are those that have started, in order.
func (w *World) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.running), func(a, b *process) int { return a.number - b.number })
}

// all are the tasks that are wanted.
func (w *World) all() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.tasks), func(a, b *task) int { return a.born - b.born })
}
