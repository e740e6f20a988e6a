package sim

import (
	"context"
	"sync/atomic"
	"time"
)

// task is a task of an orchestrator: when its process ends, it starts another process,
// until the task is told to stop.
type task struct {
	*machine
	stopping context.Context // ends with SIGTERM
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
		p := t.World.newProcess(t.machine)
		p.task = taskName(p.number)
		t.present.Store(p)
		again := 15 * time.Second
		if !p.live(t.stopping) {
			again = time.Minute // an orchestrator backs off
		}
		_ = sleep(t.stopping, time.Second+t.upTo(again))
	}
}
