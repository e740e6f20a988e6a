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

// World is one simulated world, in a synctest bubble. See [Run].
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
	functions map[string]bool // the hosts of the functions' machines
	broken    map[int]bool    // node IDs whose items a vandal has broken
	numbers   int             // the number of the newest process
	tasks     map[*task]bool
	running   map[*process]bool
	items     map[int]history.Event // as the table holds them; guarded by network.serial
	raw       map[int]map[string]json.RawMessage
	claimed   map[int]time.Duration // the TTL of each claim; guarded likewise
	sessions  map[string]session    // of the cluster's nodes; guarded likewise
	refused   int                   // the number of readers refused in a row, see judgeShared; guarded likewise
	began     time.Time             // when the faults began
	size      string                // the pool's size in the table; guarded likewise
	copied    map[string][3]int64   // revision, verdict and count of each hint card; guarded likewise
	done      map[string]bool       // writes of operators that were applied; guarded likewise
	floor     time.Time             // the latest time to which an operator tried to raise the pool

	release atomic.Int64            // the deployed release, an index of Plan.Releases
	layout  snowflake.Layout        // of the pool's IDs
	seeded  bool                    // whether the pool was seeded with layout
	reaping atomic.Pointer[machine] // the reaper's machine; nil if there is no reaper

	counting sync.Mutex
	counts   Counts
	beliefs  sync.Mutex

	widths sync.Mutex
	eras   snowflake.Eras       // of a narrow pool, as in its item
	made   map[snowflake.ID]int // the node ID of each ID, as decomposed when it was made
}

// Run runs the world of a plan. It must be called inside a synctest bubble. The error
// describes the first promise that was broken.
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
		w.network.calls.Wait() // some calls may still be delivered late
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
		broken = context.Cause(w.ctx) // a promise may have been broken while tasks stopped
	}
	w.end(nil)
	w.background.Wait()
	time.Sleep(5 * time.Second) // virtual time, in which requests of directories that are still under way reach their deadline
	return broken
}

// fail ends the world with an error, unless Plan.Ignore matches the error.
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
	spec := w.Plan.spec(w.Plan.NodeIDs)
	if w.seeded = w.Plan.has("layouts") || w.Plan.Seed%4 < 2; w.seeded {
		spec.Layout = w.layout
	}
	_, err := o.pool.Seed(w.ctx, spec)
	return err
}

// changes changes the weather again and again, until ctx ends.
func (w *World) changes(ctx context.Context) {
	for ctx.Err() == nil {
		now := w.network.any(w.r.IntN)
		w.note(history.Event{Kind: history.Note, Text: now.name})
		w.network.become(now, "")
		_ = sleep(ctx, time.Duration(w.r.Int64N(int64(w.Plan.about(w.r.IntN))))+time.Second)
	}
}

// outages sometimes makes the store unreachable for all machines, for up to ten minutes.
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

// heal ends the faults: the network works again, and wild clocks are set right.
func (w *World) heal() {
	w.note(history.Event{Kind: history.Note, Text: "the faults end"})
	w.network.become(climate[0], "")
	for _, t := range w.all() {
		t.heal()
	}
}

// settling returns the time without faults after which every process that can have a node ID
// must have one. During this time, the leases and the reservations of dead processes expire,
// late requests arrive, and waiting claimants try again.
func (w *World) settling() time.Duration {
	return 4*w.Plan.TTL() + w.Plan.Reserve() + 2*time.Minute
}

// again is the time within which a task without a node ID tries again: after a failed start,
// an orchestrator waits for up to a minute.
const again = 90 * time.Second

// liveness checks that nobody waits for a node ID while one is free. If node IDs became free
// only recently, it first waits until there was time to claim them.
func (w *World) liveness(o *operator) error {
	for {
		fresh, err := w.judgeLiveness(o)
		if err == nil || fresh <= 0 {
			return err
		}
		_ = sleep(w.ctx, fresh)
	}
}

// judgeLiveness judges the present state. It also returns how long to wait until even the
// node ID that became free last should have been claimed.
func (w *World) judgeLiveness(o *operator) (fresh time.Duration, err error) {
	waiting := 0
	for _, t := range w.all() {
		p := t.present.Load()
		if p == nil || !w.has(p) {
			waiting++
		} else if _, err := p.agent.Lease(); errors.Is(err, lease.ErrLost) && p.release.OnLost == lease.Reacquire {
			waiting++
		} else if node, _ := p.holding(); err != nil && !w.isBroken(node) && !w.claimedAhead(node) {
			return 0, fmt.Errorf("liveness: process %d has a node ID and may not use it %v after the faults: %w", p.number, w.settling(), err)
		}
	}
	stats, err := o.pool.Stats(w.ctx)
	if err != nil {
		return 0, fmt.Errorf("liveness: %w", err)
	}
	size := stats.Pool.Size
	if len(stats.Pool.Eras) > 0 {
		size = min(size, stats.Pool.ExistBelow)
	}
	free, resting := 0, 0
	for l, err := range o.pool.Leases(w.ctx) {
		if corrupt := (*lease.CorruptError)(nil); errors.As(err, &corrupt) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("liveness: %w", err)
		}
		if l.NodeID >= size { // a resize that was cut off has added this node ID, and nobody can use it
			continue
		}
		switch lease.Lease(l).State(time.Now()) {
		case lease.Free, lease.Cooling, lease.Expired: // while milliseconds are reserved, even a node ID whose lease has expired cannot be claimed
			if l.ReservedUntil.After(time.Now()) {
				resting++
			} else {
				free++
				fresh = max(fresh, again-time.Since(l.ReservedUntil))
			}
		}
	}
	if waiting > 0 && free > 0 {
		return fresh, fmt.Errorf("liveness: %v after the faults %d of %d tasks wait for a node ID, and %d could be had", w.settling(), waiting, w.Plan.Tasks, free)
	}
	if w.Plan.Bounded() && waiting > 0 && resting > 0 {
		return 0, fmt.Errorf("liveness: %v after the faults %d of %d tasks wait for a node ID, and %d rest though no clock was wrong", w.settling(), waiting, w.Plan.Tasks, resting)
	}
	return 0, nil
}

// claimedAhead reports whether a node ID was claimed with a clock that was ahead, so that its
// holder's span has not begun yet. A process keeps such a node ID only if the store does not
// send the time.
func (w *World) claimedAhead(node int) bool {
	w.network.serial.Lock()
	defer w.network.serial.Unlock()
	return !w.Plan.Dates && !w.Plan.Bounded() && w.items[node].NotBefore > time.Now().UnixMilli()
}

// keptAhead reports whether a process keeps a node ID although its span begins long after
// now. The process must give up such a node ID once its clock is right and the store has
// sent the time.
func (w *World) keptAhead(p *process, node int) bool {
	if w.Plan.Wild || !w.Plan.Dates || w.raisedTo().After(time.Now()) || w.isBroken(node) || time.Since(p.rightSince()) < p.patience() || !p.answeredTwiceSince(p.rightSince()) {
		return false
	}
	w.network.serial.Lock()
	defer w.network.serial.Unlock()
	return w.items[node].NotBefore > time.Now().Add(ahead).UnixMilli()
}

// raised records a time to which an operator tries to raise the pool.
func (w *World) raised(to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to.After(w.floor) {
		w.floor = to
	}
}

// raisedTo returns the latest time to which the pool may have been raised.
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

// processes returns the processes that have started, in order of their numbers.
func (w *World) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.running), func(a, b *process) int { return a.number - b.number })
}

// all returns the tasks that have not ended, in the order of their deployment.
func (w *World) all() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.tasks), func(a, b *task) int { return a.born - b.born })
}
