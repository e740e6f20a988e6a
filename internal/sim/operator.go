package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// operators are those who change the pool: a reaper on a schedule, someone who
// resizes it, someone who frees numbers by force, perhaps on old sight, and
// whoever deploys. Their machine's clock is right, for the pool's verbs ask the
// machine for the time.
type operators struct {
	*World
	r     *rand.Rand
	store lease.Store
	pool  *leasepool.Pool
	seen  []lease.Lease // old sight
}

func (w *World) newOperators() (*operators, func()) {
	p := &process{machine: w.newMachine(), number: 0, dead: make(chan struct{})}
	client, hangUp := p.client()
	store := lease.NewDynamoDB(client, tableName)
	pool := leasepool.Open(store, poolName)
	pool.Logger = silent
	return &operators{World: w, r: rand.New(rand.NewPCG(w.Plan.Seed, 3)), store: store, pool: pool}, hangUp
}

// work does something every minute or so, until ctx ends.
func (o *operators) work(ctx context.Context) {
	for sleep(ctx, time.Duration(o.r.Int64N(int64(2*time.Minute)))) == nil {
		// Each verb has a minute: the store may be away for longer.
		call, cancel := context.WithTimeout(ctx, time.Minute+o.Plan.Lease.TTL)
		if o.Plan.Narrow && o.r.IntN(3) == 0 {
			o.widen(call)
		}
		switch o.r.IntN(10) {
		case 0, 1, 2:
			report, _ := o.pool.Reap(call)
			o.count(func(c *Counts) { c.Reaped += len(report.Freed) })
		case 3:
			size := max(1, o.Plan.Numbers+o.r.IntN(o.Plan.Numbers+1)-o.Plan.Numbers/2)
			if _, err := o.pool.Resize(call, leasepool.Spec{Size: size, Narrow: o.Plan.Narrow}); err == nil {
				o.count(func(c *Counts) { c.Resized++ })
			}
		case 4, 5:
			o.look(call)
		case 6, 7:
			if o.Plan.Force && len(o.seen) > 0 {
				l := o.seen[o.r.IntN(len(o.seen))]
				if _, err := o.pool.ForceRelease(call, l.NodeID, l.Version); err == nil {
					o.count(func(c *Counts) { c.Forced++ })
				}
			}
		case 8:
			o.kill()
		case 9:
			o.roll(ctx)
		}
		cancel()
	}
}

// widen opens the next groups of a narrow pool, as a fleet would that is much
// larger, and lets one or two widen it. Each may be cut off anywhere.
func (o *operators) widen(ctx context.Context) {
	item, err := o.store.PoolItem(ctx, poolName)
	if err != nil {
		return
	}
	if item.Numbers == 1<<item.Eras[len(item.Eras)-1].NodeBits {
		w := protocol.OpenGroups{Pool: poolName, From: item.OpenGroups, To: item.Numbers / protocol.GroupSize}
		_, _ = o.store.WritePool(ctx, w) // lost or done: both happen
	}
	var both sync.WaitGroup
	for range 1 + o.r.IntN(2) {
		some, cancel := context.WithTimeout(ctx, time.Duration(o.r.Int64N(int64(time.Minute))))
		both.Go(func() {
			defer cancel()
			_, _ = o.pool.Widen(some)
		})
	}
	both.Wait()
}

// look remembers who holds what.
func (o *operators) look(ctx context.Context) {
	var seen []lease.Lease
	for l, err := range o.pool.Leases(ctx) {
		if err != nil {
			return
		}
		if l.Holder != "" {
			seen = append(seen, l)
		}
	}
	o.seen = seen
}

// kill kills a few processes.
func (o *operators) kill() {
	for _, t := range o.all() {
		if o.r.IntN(4) == 0 {
			t.crash()
		}
	}
}

func (t *task) crash() {
	if p := t.present.Load(); p != nil {
		t.World.count(func(c *Counts) { c.Kills++ })
		p.kill()
	}
}

// roll deploys anew: some tasks at a time, the new ones before the old ones are
// told to stop.
func (o *operators) roll(ctx context.Context) {
	o.count(func(c *Counts) { c.Deployments++ })
	old := o.all()
	step := 1 + o.r.IntN(len(old)+1)
	for len(old) > 0 && ctx.Err() == nil {
		n := min(step, len(old))
		for range n {
			o.deploy()
		}
		_ = sleep(ctx, time.Duration(o.r.Int64N(int64(time.Minute))))
		for _, t := range old[:n] {
			t.stop()
		}
		old = old[n:]
	}
}

var silent = slog.New(slog.DiscardHandler)
