package sim

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/history"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// task is what an orchestrator wants to run: when its process ends, it starts
// another one, until it is told to stop.
type task struct {
	*machine
	stopping context.Context // when it ends: SIGTERM
	stop     context.CancelFunc
	ended    chan struct{}
	born     int

	present atomic.Pointer[process]
}

// deploy starts a task on a machine of its own.
func (w *World) deploy() *task {
	m := w.newMachine()
	t := &task{machine: m, ended: make(chan struct{}), born: m.number}
	t.stopping, t.stop = context.WithCancel(context.WithoutCancel(w.ctx))
	w.mu.Lock()
	w.tasks[t] = true
	w.mu.Unlock()
	go t.run()
	w.background.Go(func() { t.machine.live(w.troubles) })
	return t
}

func (t *task) run() {
	defer close(t.ended)
	defer func() {
		t.World.mu.Lock()
		delete(t.World.tasks, t)
		t.World.mu.Unlock()
	}()
	for t.stopping.Err() == nil && t.World.ctx.Err() == nil {
		t.life()
		_ = sleep(t.stopping, time.Second+t.upTo(15*time.Second))
	}
}

// life is one process, from its start to its end.
func (t *task) life() {
	p := &process{machine: t.machine, number: t.World.newNumber(), dead: make(chan struct{})}
	t.present.Store(p)
	client, hangUp := p.client()
	defer hangUp()
	cfg := t.Plan.Lease
	cfg.Pool, cfg.Task, cfg.Clock, cfg.Logger = poolName, taskName(p.number), &processClock{p}, silent
	cfg.Store, cfg.OnEvent, cfg.Wait = lease.NewDynamoDB(client, tableName), p.heard, t.upTo(20*time.Second)
	ctx, cancel := context.WithCancel(t.stopping)
	defer cancel()
	go func() { // a process that is killed while it starts
		select {
		case <-p.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	a, err := lease.Start(ctx, cfg)
	t.World.started(err)
	if err != nil {
		return
	}
	began := time.Now()
	p.agent = a
	t.World.join(p)
	p.work(t.stopping)
	if err := a.Close(); err == nil && !p.isDead() {
		t.World.count(func(c *Counts) { c.Closed++ })
	}
	t.World.leave(p)
	t.World.count(func(c *Counts) { c.Lived += time.Since(began) })
}

// heard is the agent's hook: what it learned that it may stamp, and that beliefs
// may have changed.
func (p *process) heard(e lease.Event) {
	if p.isDead() {
		return
	}
	p.World.count(func(c *Counts) { c.Events[e.Kind]++ })
	switch e.Kind {
	case lease.EventClaimed, lease.EventRenewed:
		p.World.note(history.Event{Kind: history.May, Who: p.number, Node: e.Lease.NodeID, Version: e.Lease.Version, Until: e.Lease.ReservedUntil.UnixMilli()})
		p.World.witnessBeliefs()
	case lease.EventLost:
		if !strings.Contains(e.Err.Error(), "OnExpiry is Stop") {
			p.World.note(history.Event{Kind: history.Lost, Who: p.number, Node: e.Lease.NodeID, Version: e.Lease.Version})
		}
		p.World.witnessBeliefs()
	case lease.EventResumed, lease.EventSuspended:
		p.World.witnessBeliefs()
	}
}

// work makes IDs until the process is told to stop, loses its number or dies.
func (p *process) work(stopping context.Context) {
	p.World.witnessBeliefs()
	layout := snowflake.Default()
	if p.Plan.Narrow {
		layout = snowflake.Wide16()
	}
	ids, err := snowflake.New(p.agent, snowflake.WithLayout(layout), snowflake.WithMaxWait(100*time.Millisecond))
	if err != nil {
		p.World.fail(err)
		return
	}
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

// make asks for a few IDs.
func (p *process) make(next func() (snowflake.ID, error)) {
	for range 1 + p.intN(4) {
		id, err := next()
		if p.isDead() {
			return // a dead process tells nobody of its last ID
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
