package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/history"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
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
	pipes      *pipes
	background sync.WaitGroup

	mu       sync.Mutex
	machines int
	numbers  int // of processes
	tasks    map[*task]bool
	running  map[*process]bool

	counting sync.Mutex
	counts   Counts
	beliefs  sync.Mutex

	widths sync.Mutex
	eras   snowflake.Eras       // of a narrow world's pool, as its table says
	made   map[snowflake.ID]int // by which number, as they were taken apart when they were made
}

// Run lives through a plan, inside of a synctest bubble, and gives what happened.
// The error is the first promise that was broken.
func Run(p Plan) (*World, Counts, error) {
	w := &World{
		Plan: p, r: rand.New(rand.NewPCG(p.Seed, 4)), tasks: map[*task]bool{}, running: map[*process]bool{}, made: map[snowflake.ID]int{},
		pipes: newPipes(), counts: newCounts(),
	}
	w.ctx, w.end = context.WithCancelCause(context.Background())
	w.troubles, w.calm = context.WithCancel(w.ctx)
	err := w.run()
	return w, w.counts, err
}

func (w *World) run() (err error) {
	// The bubble begins in 2000, before the layout's epoch.
	time.Sleep(time.Until(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)))
	w.note(history.Event{Kind: history.World, Bounded: w.Plan.Bounded, Text: w.Plan.String()})
	db, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		return err
	}
	w.network = &network{World: w, db: db, r: rand.New(rand.NewPCG(w.Plan.Seed, 5)), weather: climate[0], local: map[string]weather{}}
	server := http.Server{Handler: w.network}
	served := make(chan error)
	go func() { served <- server.Serve(w.pipes) }()
	defer func() {
		_ = server.Close()
		<-served
		w.network.calls.Wait() // those that are still to be delivered late
		err = errors.Join(err, db.Close())
	}()

	operators, hangUp := w.newOperators()
	defer hangUp()
	if err := w.seed(operators); err != nil {
		return err
	}
	for range w.Plan.Tasks {
		w.deploy()
	}
	w.background.Go(func() { operators.work(w.troubles) })
	w.background.Go(w.changes)
	w.background.Go(w.watch)
	_ = sleep(w.ctx, w.Plan.Hours)
	w.calm()
	if w.ctx.Err() == nil {
		w.heal()
		_ = sleep(w.ctx, w.settling())
	}
	broken := context.Cause(w.ctx)
	if broken == nil {
		broken = w.liveness(operators)
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
	return broken
}

// fail ends the world.
func (w *World) fail(err error) { w.end(err) }

// seed makes the table and the pool.
func (w *World) seed(o *operators) error {
	if err := createTable(w.ctx, w.pipes); err != nil {
		return err
	}
	_, err := o.pool.Seed(w.ctx, leasepool.Spec{Size: w.Plan.Numbers, Narrow: w.Plan.Narrow})
	return err
}

// changes lets the weather change.
func (w *World) changes() {
	for w.troubles.Err() == nil {
		i := w.r.IntN(len(climate))
		w.note(history.Event{Kind: history.Note, Text: climate[i].name})
		w.network.become(climate[i], "")
		_ = sleep(w.troubles, time.Duration(w.r.Int64N(int64(6*w.Plan.Lease.TTL)))+time.Second)
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

// watch asks for beliefs all the time, beside the moments at which they change.
func (w *World) watch() {
	for sleep(w.ctx, time.Second) == nil {
		w.witnessBeliefs()
	}
}

// settling is how long after the faults everyone who can have a number has one:
// what the dead hold expires and what they reserved passes, the last requests
// that were late have arrived, and whoever waits looks again.
func (w *World) settling() time.Duration {
	return 4*w.Plan.Lease.TTL + max(w.Plan.Lease.Reserve, w.Plan.Lease.TTL) + 2*time.Minute
}

// liveness judges that nobody waits for a number while one could be had.
func (w *World) liveness(o *operators) error {
	waiting := 0
	for _, t := range w.all() {
		p := t.present.Load()
		if p == nil || !w.has(p) {
			waiting++
		} else if _, err := p.agent.Lease(); errors.Is(err, lease.ErrLost) && w.Plan.Lease.OnLost == lease.Reacquire {
			waiting++
		} else if err != nil {
			return fmt.Errorf("liveness: process %d has a number and may not use it %v after the faults: %w", p.number, w.settling(), err)
		}
	}
	stats, err := o.pool.Stats(w.ctx)
	if err != nil {
		return fmt.Errorf("liveness: %w", err)
	}
	size := stats.Pool.Size
	if len(stats.Pool.Eras) > 0 {
		size = min(size, stats.Pool.Numbers)
	}
	free, resting := 0, 0
	for l, err := range o.pool.Leases(w.ctx) {
		if err != nil {
			return fmt.Errorf("liveness: %w", err)
		}
		if l.NodeID >= size { // a resize that was cut off is nobody's to use
			continue
		}
		switch l.State(time.Now()) {
		case lease.Free, lease.Cooling, lease.Expired: // expired ones rest too, while anything is reserved
			if l.ReservedUntil.After(time.Now()) {
				resting++
			} else {
				free++
			}
		}
	}
	if waiting > 0 && free > 0 {
		return fmt.Errorf("liveness: %v after the faults %d of %d tasks wait for a number, and %d could be had", w.settling(), waiting, w.Plan.Tasks, free)
	}
	if w.Plan.Bounded && waiting > 0 && resting > 0 {
		return fmt.Errorf("liveness: %v after the faults %d of %d tasks wait for a number, and %d rest though no clock was wrong", w.settling(), waiting, w.Plan.Tasks, resting)
	}
	return nil
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
