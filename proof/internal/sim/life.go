package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// limb is an activity of a process that holds a lease. It ends when ctx ends, before the
// process closes its agent.
type limb struct {
	part string
	run  func(p *process, ctx context.Context)
}

// limbs lists all limbs. The processes of a world have those limbs whose parts the world
// has.
var limbs = []limb{
	{"sidecar", (*process).askSidecar},
	{"cluster", (*process).takePart},
	{"discovery", (*process).discover},
}

// config returns the configuration of the process's agent.
func (p *process) config(client lease.Client) lease.Config {
	cfg := p.release
	cfg.Pool, cfg.Task, cfg.Clock, cfg.Logger = poolName, p.task, &processClock{p}, p.logger()
	cfg.Store, cfg.OnEvent, cfg.Wait = lease.NewDynamoDB(client, tableName), p.heard, p.upTo(20*time.Second)
	if p.Plan.has("waiting") {
		cfg.Wait *= 60
	}
	if p.Plan.has("cards") && p.number%4 == 0 { // a process that finds no node ID then gives up at once
		cfg.Wait = 0
	}
	return cfg
}

// live runs a process from its start to its end, and reports whether the start succeeded.
func (p *process) live(stopping context.Context) bool {
	client := p.client()
	ctx, cancel := context.WithCancel(stopping)
	defer cancel()
	go func() { // cancels the start if the process is killed meanwhile
		select {
		case <-p.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	a, err := lease.Start(ctx, p.config(client))
	p.started(err)
	if err != nil {
		return false
	}
	p.serve(stopping, ctx, client, a)
	return true
}

// serve runs a process that has started, until its end.
func (p *process) serve(stopping, ctx context.Context, client lease.Client, a *lease.Agent) {
	began := time.Now()
	p.agent = a
	p.World.join(p)
	var all sync.WaitGroup
	life, end := context.WithCancel(ctx)
	for _, l := range limbs {
		if p.Plan.has(l.part) && p.copyOf == nil {
			all.Go(func() { l.run(p, context.WithValue(life, clientKey{}, client)) })
		}
	}
	p.work(stopping)
	end()
	all.Wait()
	p.judgeEnd()
	p.close()
	p.World.leave(p)
	p.World.count(func(c *Counts) { c.Lived += time.Since(began) })
}

type clientKey struct{}

// clientOf returns the process's client, for its limbs.
func clientOf(ctx context.Context) lease.Client { return ctx.Value(clientKey{}).(lease.Client) }

// close closes the agent, and checks that this takes no longer than the agent's time limits
// allow.
func (p *process) close() {
	const most = 15 * time.Second
	began := time.Now()
	if err := p.agent.Close(); err == nil && !p.isDead() {
		p.World.count(func(c *Counts) { c.Closed++ })
	}
	if took := time.Since(began); took > most && !p.wellSince().After(began) && !p.isDead() {
		p.World.fail(fmt.Errorf("process %d took %v to close", p.number, took))
	}
}

// judgeEnd checks that no agent has ended that should have continued with another node ID.
func (p *process) judgeEnd() {
	err := p.agent.Err()
	if err != nil && p.release.OnLost == lease.Reacquire && !p.Plan.Wild && !p.isDead() {
		p.World.fail(fmt.Errorf("process %d was to take another node ID whenever it loses one, and gave up: %w", p.number, err))
	}
}

// started counts and judges how a start ended.
func (p *process) started(err error) {
	how := "other"
	for name, e := range map[string]error{
		"exhausted": lease.ErrPoolExhausted, "clock behind": lease.ErrClockBehind, "clock skew": lease.ErrClockSkew, "not seeded": lease.ErrPoolNotSeeded,
		"denied": lease.ErrAccess, "table": lease.ErrTable,
	} {
		if errors.Is(err, e) {
			how = name
		}
	}
	if err == nil {
		how = "ok"
	}
	p.World.count(func(c *Counts) { c.Starts[how]++ })
	if how == "exhausted" {
		p.judgeExhausted()
	}
	if how == "clock behind" && p.Plan.Bounded() && p.raisedTo().Before(time.Now()) && !p.isDead() {
		p.World.fail(fmt.Errorf("process %d was told that its clock is behind, and it is off by %v: %w", p.number, p.clock.off(), err))
	}
}

// heard is the agent's hook OnEvent. It records until when the process may stamp IDs from
// now on, and the beliefs, which the event may have changed.
func (p *process) heard(e lease.Event) {
	at := time.Now()
	p.block()
	if p.isDead() {
		return
	}
	p.World.count(func(c *Counts) { c.Events[e.Kind]++ })
	p.tell(e.Kind)
	switch e.Kind {
	case lease.EventClaimed, lease.EventRenewed:
		if e.Kind == lease.EventClaimed {
			p.rightly.Store(at.Sub(p.rightSince()) > p.patience())
		}
		if e.Kind == lease.EventRenewed {
			p.answered(at)
			if p.copyNext.CompareAndSwap(true, false) {
				p.hadCopy.Store(true)
				defer p.copied(e.Lease)
			}
		}
		if e.Lease.TTL > p.release.TTL {
			p.World.count(func(c *Counts) { c.Grown++ })
		}
		p.World.note(history.Event{Kind: history.May, Who: p.number, Node: e.Lease.NodeID, Version: e.Lease.Version, Until: e.Lease.ReservedUntil.UnixMilli()})
		p.World.witnessBeliefs()
	case lease.EventCorrupt:
		// A hook that blocks hears of it late, and an unanswered release may have failed.
		if calm := p.calmFor(); !p.Plan.has("sinks") && calm > p.patience() {
			p.World.note(history.Event{Kind: history.Skip, Who: p.number, Node: e.Lease.NodeID, Until: at.Add(-calm).UnixMilli()})
		}
	case lease.EventLost:
		if !strings.Contains(e.Err.Error(), "before the deadline") {
			p.World.note(history.Event{Kind: history.Lost, Who: p.number, Node: e.Lease.NodeID, Version: e.Lease.Version})
		} else if e.Left > 0 {
			p.World.fail(fmt.Errorf("process %d lost version %d of node %d by OnExpiry, %v before its deadline", p.number, e.Lease.Version, e.Lease.NodeID, e.Left))
		}
		p.World.witnessBeliefs()
	case lease.EventResumed, lease.EventSuspended:
		p.World.witnessBeliefs()
	}
}

// generator makes the process's generator, if the store answers. A process with a misfit
// release requests a layout that differs from the pool's, and must not get a generator.
func (p *process) generator() (*snowflake.Generator, bool) {
	layout, opts := p.World.layout, []snowflake.Option{snowflake.WithMaxWait(100 * time.Millisecond)}
	if p.misfit {
		layout.Epoch = layout.Epoch.AddDate(0, 0, -1)
	}
	if p.misfit || !p.World.seeded || p.intN(2) == 0 {
		opts = append(opts, snowflake.WithLayout(layout))
	}
	ids, err := snowflake.New(p.agent, opts...)
	switch {
	case err != nil && p.misfit:
		p.World.count(func(c *Counts) { c.Unfit++ })
	case err != nil && p.agent.Err() == nil && strings.Contains(err.Error(), "layout"):
		p.World.fail(err) // any other error means that the store did not answer
	}
	return ids, err == nil
}

// work makes IDs until the process is told to stop, loses its node ID or dies.
func (p *process) work(stopping context.Context) {
	p.World.witnessBeliefs()
	ids, ok := p.generator()
	if !ok {
		return
	}
	p.ids.Store(ids)
	block := ids.Block()
	for {
		t := time.NewTimer(p.upTo(20 * time.Second))
		select {
		case <-t.C:
		case <-stopping.Done():
		case <-p.agent.Done():
		case <-p.dead:
		}
		t.Stop()
		p.stop(between)
		if stopping.Err() != nil || p.agent.Err() != nil || p.isDead() {
			return
		}
		var both sync.WaitGroup
		for range 1 + p.intN(2) {
			both.Go(func() { p.make(ids.Next) })
		}
		p.make(block.Next)
		both.Wait()
	}
}

// make makes a few IDs.
func (p *process) make(next func() (snowflake.ID, error)) {
	for range 1 + p.intN(4) {
		id, err := next()
		if p.isDead() {
			return // a dead process reports its last ID to nobody
		}
		switch {
		case err == nil:
			p.World.count(func(c *Counts) { c.IDs++ })
			p.World.witnessID(p, id)
		case errors.Is(err, snowflake.ErrFenced):
			p.World.count(func(c *Counts) { c.Fenced++ })
			return
		default:
			return
		}
	}
}
