package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// operator changes the pool: it seeds, resizes, raises and widens the pool, and frees node
// IDs by force, perhaps with an old list of leases. Its clock is always right, since the
// verbs of package leasepool read the real machine's clock.
type operator struct {
	*World
	*machine
	store lease.Store
	pool  *leasepool.Pool
	seen  []lease.Lease // the held leases when the operator last listed them
}

func (w *World) newOperator() *operator {
	p := &process{machine: w.newMachine(), number: 0, dead: make(chan struct{})}
	store := lease.NewDynamoDB(p.client(), tableName)
	pool := leasepool.Open(store, poolName)
	pool.Logger = silent
	return &operator{World: w, machine: p.machine, store: store, pool: pool}
}

// operate runs one to three independent operators until ctx ends.
func (w *World) operate(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Plan.Seed, 3))
	var all sync.WaitGroup
	for range 1 + r.IntN(3) {
		o := w.newOperator()
		all.Go(func() { o.work(ctx) })
	}
	all.Wait()
}

// verbs are the actions of an operator. An action with more entries is more likely.
var verbs = []func(*operator, context.Context){
	(*operator).resize, (*operator).resize, (*operator).resize, (*operator).look, (*operator).look, (*operator).force, (*operator).force,
	(*operator).raise, (*operator).seed,
}

// work carries out a verb about twice a minute, until ctx ends.
func (o *operator) work(ctx context.Context) {
	for sleep(ctx, o.upTo(time.Minute)) == nil {
		// Each verb has a time limit, since the store may be away for longer than that.
		call, cancel := context.WithTimeout(ctx, time.Minute+o.World.Plan.TTL())
		verb := verbs[o.intN(len(verbs))]
		if o.World.Plan.Narrow && o.intN(2) == 0 {
			verb = (*operator).widen
		}
		verb(o, call)
		cancel()
	}
}

// spec returns the specification of the pool with size node IDs that can be leased.
func (p Plan) spec(size int) leasepool.Spec {
	return leasepool.Spec{Size: p.Exclude + size, ExcludeBelow: p.Exclude, Narrow: p.Narrow}
}

func (o *operator) resize(ctx context.Context) {
	n := o.World.Plan.NodeIDs
	if _, err := o.pool.Resize(ctx, o.World.Plan.spec(max(1, n+o.intN(n+1)-n/2))); err == nil {
		o.World.count(func(c *Counts) { c.Resized++ })
	}
}

// seed seeds the pool again. The pool already exists, with the same size or a different one.
func (o *operator) seed(ctx context.Context) {
	if _, err := o.pool.Seed(ctx, o.World.Plan.spec(o.World.Plan.NodeIDs)); err == nil {
		o.World.count(func(c *Counts) { c.Seeded++ })
	}
}

// raise raises the pool to a time up to two minutes ahead. Nobody may stamp earlier times.
func (o *operator) raise(ctx context.Context) {
	if !o.World.Plan.has("raises") {
		return
	}
	to := time.Now().Add(o.upTo(2 * time.Minute)).Truncate(time.Millisecond)
	o.World.raised(to)
	if _, err := o.pool.Raise(ctx, to); err == nil {
		o.World.note(history.Event{Kind: history.Floor, Until: to.UnixMilli()})
		o.World.count(func(c *Counts) { c.Raised++ })
	}
}

// look lists the held leases and remembers them.
func (o *operator) look(ctx context.Context) {
	var seen []lease.Lease
	for l, err := range o.pool.Leases(ctx) {
		if err != nil {
			return
		}
		if l.Holder != "" {
			seen = append(seen, lease.Lease(l))
		}
	}
	o.seen = seen
}

func (o *operator) force(ctx context.Context) {
	if len(o.seen) == 0 {
		return
	}
	l := o.seen[o.intN(len(o.seen))]
	if _, err := o.pool.ForceRelease(ctx, l.NodeID, l.Version); err == nil {
		o.World.count(func(c *Counts) { c.Forced++ })
	}
}

// widen opens the next groups of a narrow pool, as a much larger fleet would, and widens the
// pool once or twice, often while the pool is also being resized. Each of these actions may
// be cut off at any point.
func (o *operator) widen(ctx context.Context) {
	if !o.World.Plan.Narrow {
		return
	}
	var all sync.WaitGroup
	near := []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second}[o.intN(3)]
	meanwhile := func(verb func(ctx context.Context)) {
		some, cancel := context.WithTimeout(ctx, o.upTo(time.Minute))
		wait := o.upTo(near)
		all.Go(func() {
			defer cancel()
			if sleep(some, wait) == nil {
				verb(some)
			}
		})
	}
	for range 1 + o.intN(2) {
		meanwhile(func(ctx context.Context) {
			o.open(ctx)
			_, _ = o.pool.Widen(ctx)
		})
	}
	if o.intN(2) == 0 {
		meanwhile(o.growNumbers)
	}
	all.Wait()
}

// open opens more groups, unless as many groups are open as groupsByNow returns.
func (o *operator) open(ctx context.Context) {
	item, err := o.store.PoolItem(ctx, poolName)
	if err == nil && item.OpenGroups < o.World.groupsByNow() {
		w := protocol.OpenGroups{Pool: poolName, From: item.OpenGroups, To: 2 * item.OpenGroups}
		_, _ = o.store.WritePool(ctx, w) // an error is fine: the write may be applied or lost
	}
}

// growNumbers resizes a narrow pool so that it has one to three more node IDs than it has
// ever had.
func (o *operator) growNumbers(ctx context.Context) {
	item, err := o.store.PoolItem(ctx, poolName)
	if err == nil {
		_, _ = o.pool.Resize(ctx, o.World.Plan.spec(item.ExistBelow-o.World.Plan.Exclude+1+o.intN(3)))
	}
}

// groupsByNow returns how many groups a narrow pool should have open by now. When the faults
// end, it returns the number of all groups, so that the widths change during the whole time
// of the faults. In a world with a cluster, the number is smaller, because members read all
// open groups while they have no digest that they can trust.
func (w *World) groupsByNow() int {
	doublings := 8
	if w.Plan.has("cluster") {
		doublings = 4
	}
	return min(2<<int(time.Duration(doublings)*time.Since(w.began)/w.Plan.Hours), protocol.MaxPoolSize/protocol.GroupSize)
}

var silent = slog.New(slog.DiscardHandler)
