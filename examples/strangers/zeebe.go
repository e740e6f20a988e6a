//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func zeebeBootstrap(ctx context.Context, w *world) error {
	_, pool, err := w.seed(ctx, "boot", leasepool.Spec{Size: 6})
	if err != nil {
		return err
	}
	list, _, err := leases(ctx, pool)
	var wrong, held error
	for i, l := range list {
		wrong = errors.Join(wrong, want(l.NodeID == i, "place %d has node ID %d", i, l.NodeID))
		held = errors.Join(held, want(l.State(time.Now()) == lease.Free && l.Version == 0, "node ID %d: %v", i, l))
	}
	w.judge("Z1", err, want(len(list) == 6, "%d leases", len(list)), wrong)
	w.judge("Z3", err, held)

	cfg := short(w.pool("herd"))
	cfg.SeedIfMissing = &leasepool.Spec{Size: 200}
	cfg.Wait = 10 * time.Second
	procs := make([]*proc, 6)
	errs := make([]error, len(procs))
	var all sync.WaitGroup
	for i := range procs {
		all.Go(func() { procs[i], errs[i] = w.start(ctx, cfg) })
	}
	all.Wait()
	w.judge("Z2", errs...)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	holders, highest := map[int]bool{}, 0
	for _, p := range procs {
		holders[p.NodeID()] = true
		highest = max(highest, p.NodeID())
		defer p.Close()
	}
	w.differs("Z5", "a random free node ID, claimed by one conditional write", want(len(holders) == 6, "6 agents hold %v", holders), want(highest > 6, "they hold the first ones"))

	herd := leasepool.Open(lease.NewDynamoDB(w.client, w.table), cfg.Pool)
	_ = procs[0].Close()
	cfg.SeedIfMissing = &leasepool.Spec{Size: 300}
	again, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	defer again.Close()
	same, err := herd.Stats(ctx)
	_, err2 := herd.Resize(ctx, leasepool.Spec{Size: 250})
	larger, err3 := herd.Stats(ctx)
	w.judge("Z4", err, err2, err3, want(same.Capacity == 200 && larger.Capacity == 250, "%d and then %d node IDs", same.Capacity, larger.Capacity))
	return nil
}

func zeebeHandover(ctx context.Context, w *world) error {
	name, pool, err := w.seed(ctx, "handover", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	// A process that ends in an orderly way, as lease.Run ends it on a signal.
	cfg := short(name)
	cfg.Store, cfg.Logger = lease.NewDynamoDB(w.client, w.table), quiet
	w.judge("Z9", lease.Run(ctx, cfg, func(context.Context, *lease.Agent) error { return nil }))

	list, _, err := leases(ctx, pool)
	if err != nil {
		return err
	}
	w.judge("Z7", want(list[0].Holder == "" && list[0].State(time.Now()) == lease.Free, "%+v", list[0]))
	var p *proc
	took, err := within(func() (err error) { p, err = w.start(ctx, short(name)); return err })
	w.judge("Z8", err, want(took < time.Second, "after %v", took))
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := p.Lease()
	if err != nil {
		return err
	}
	w.judge("Z6", want(l.Version == list[0].Version+1, "from %d to %d", list[0].Version, l.Version))
	pre := l.Predecessor()
	w.differs("Z10", "a random free one; of a pool of one the same, with the predecessor's version and end",
		want(pre != nil && pre.Ended == lease.EndReleased && pre.Version == 1, "predecessor %+v", pre))
	return nil
}

func zeebeTimedOut(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "timeout", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	a, err := w.start(ctx, short(name))
	if err != nil {
		return err
	}
	held, err := a.Lease()
	if err != nil {
		return err
	}
	a.crash()
	cfg := short(name)
	_, err = w.start(ctx, cfg)
	full := want(errors.Is(err, lease.ErrPoolExhausted), "a second start: %v", err)
	cfg.Wait = 20 * time.Second
	b, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	l, err := b.Lease()
	if err != nil {
		return err
	}
	pre := l.Predecessor()
	w.judge("Z11", want(pre != nil && pre.Ended == lease.EndExpired, "predecessor %+v", pre), want(time.Now().After(held.ExpiresAt), "taken before it expired"))
	_, err = b.wait(ctx, 0, lease.EventWaiting)
	w.judge("Z12", full, err)
	return nil
}

// zeebeLongExpired makes the clock of the next holder 10 minutes fast. By that clock, the lease has been expired
// for 10 minutes.
func zeebeLongExpired(ctx context.Context, w *world) error {
	memory := leasetest.NewMemory("m", 1)
	cfg := short("m")
	cfg.Store = memory
	a, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	memory.SetOutage(errors.New("away"))
	_ = a.Close()
	memory.SetOutage(nil)
	cfg.Clock = leasetest.NewClock(10 * time.Minute)
	b, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	l, err := b.Lease()
	if err != nil {
		return err
	}
	pre := l.Predecessor()
	w.differs("Z13", "it stays expired; readiness asks the live members only, and they have dropped the dead one by then", want(pre != nil && pre.Ended == lease.EndExpired, "10 minutes after its expiry the predecessor is %+v", pre))
	return nil
}

func zeebeRenewals(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "renewals", leasepool.Spec{Size: 2})
	if err != nil {
		return err
	}
	measure := func(cfg lease.Config, every time.Duration) error {
		p, err := w.start(ctx, cfg)
		if err != nil {
			return err
		}
		defer p.Close()
		last, err := p.wait(ctx, 0, lease.EventRenewed) // the first renewal comes at a random time
		var gaps []time.Duration
		for range 5 {
			next, err := p.wait(ctx, p.seen(), lease.EventRenewed)
			if err != nil {
				return err
			}
			gaps = append(gaps, next.Time.Sub(last.Time))
			last = next
		}
		sorted := slices.Sorted(slices.Values(gaps)) // the median, as this machine may be busy
		return errors.Join(err, want(sorted[2] > every*88/100 && sorted[2] < every*115/100, "renewed after %v, not %v", gaps, every))
	}
	third, own := short(name), short(name)
	third.TTL = 6 * time.Second
	own.RenewEvery = 700 * time.Millisecond
	w.judge("Z15", measure(third, 2*time.Second))
	w.judge("Z14", measure(own, 700*time.Millisecond))
	return nil
}

// A gate is a backend that can delay a member's publications, and that counts reads.
type gate struct {
	cluster.Coordinator
	publish func(known cluster.Versions)
	reads   atomic.Int64
}

func (g *gate) Publish(ctx context.Context, m cluster.Member, revision int64, known cluster.Versions) error {
	if g.publish != nil {
		g.publish(known)
	}
	return g.Coordinator.Publish(ctx, m, revision, known)
}

func (g *gate) Known(ctx context.Context, name string) (map[string]cluster.Versions, error) {
	g.reads.Add(1)
	return g.Coordinator.Known(ctx, name)
}

// A peer is a process that takes part in a cluster.
type peer struct {
	*proc
	node *cluster.Node
	gate *gate
}

func (w *world) join(ctx context.Context, name string, lc lease.Config, cfg cluster.Config, publish func(cluster.Versions)) (*peer, error) {
	p, err := w.start(ctx, lc)
	if err != nil {
		return nil, err
	}
	g := &gate{Coordinator: dynamocoordinator.New(p.cable, w.table), publish: publish}
	cfg.Name, cfg.Agent, cfg.Coordinator = name, p.Agent, g
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	node, err := cluster.Start(ctx, cfg)
	if err != nil {
		_ = p.Close()
	}
	return &peer{p, node, g}, err
}

func (p *peer) leave() {
	_ = p.node.Close()
	_ = p.proc.Close()
}

func zeebeReadiness(ctx context.Context, w *world) error {
	name, pool, err := w.seed(ctx, "ready", leasepool.Spec{Size: 3})
	if err != nil {
		return err
	}
	lc := short(name)
	lc.Wait = 30 * time.Second
	publishes := cluster.Config{PublishKnown: true}
	a, err := w.join(ctx, "a", lc, publishes, nil)
	if err != nil {
		return err
	}
	defer a.leave()
	arrived, open := make(chan struct{}, 1), make(chan struct{})
	var newcomer atomic.Pointer[string]
	b, err := w.join(ctx, "b", lc, publishes, func(known cluster.Versions) {
		if key := newcomer.Load(); key != nil && known[*key] == 2 {
			select {
			case arrived <- struct{}{}:
			default:
			}
			<-open
		}
	})
	if err != nil {
		return err
	}
	defer b.leave()
	c, err := w.join(ctx, "c", lc, publishes, nil)
	if err != nil {
		return err
	}
	key := c.node.Self().Key()
	newcomer.Store(&key)
	c.crash()
	d, err := w.join(ctx, "d", lc, publishes, nil) // d takes c's node ID
	if err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() { ready <- d.node.WaitKnown(ctx) }()
	select {
	case err := <-ready:
		w.judge("Z16", fmt.Errorf("ready before b had published: %w", err))
		return errors.New("ready too early")
	case <-arrived:
	}
	_, err = d.wait(ctx, d.seen(), lease.EventRenewed)
	early := false
	select {
	case <-ready:
		early = true
	default:
	}
	w.judge("Z17", err, want(!early, "it was ready meanwhile"))
	close(open)
	opened := time.Now()
	err = <-ready
	took := time.Since(opened)
	known, err2 := d.gate.Coordinator.Known(ctx, name)
	var stale error
	for _, m := range []*peer{a, b} {
		if v := known[m.node.Self().Key()][key]; v != 2 {
			stale = fmt.Errorf("%s knows version %d", m.node.Self().Name, v)
		}
	}
	w.judge("Z16", err, err2, stale, want(!early, "ready before b had published"), want(took < 8*time.Second, "ready %v after b had published, as by a time-out", took))
	w.differs("Z18", "an item of its own for each member", err2, want(len(known) >= 2, "%v", known))

	list, _, err := leases(ctx, pool)
	var missing error
	for _, l := range list {
		m, ok := cluster.MemberOf(l)
		missing = errors.Join(missing, want(ok && m.Version == l.Version && m.Name != "", "node ID %d: %+v", l.NodeID, m))
	}
	w.judge("Z20", err, want(len(list) == 3, "%d leases", len(list)), missing)

	d.leave()
	e, err := w.join(ctx, "e", lc, publishes, nil)
	if err != nil {
		return err
	}
	defer e.leave()
	before := e.gate.reads.Load()
	took, err = within(func() error { return e.node.WaitKnown(ctx) })
	w.judge("Z19", err, want(took < 100*time.Millisecond, "after %v", took), want(e.gate.reads.Load() == before, "it read"), want(e.node.Self().Version == 3, "version %d", e.node.Self().Version))
	return nil
}
