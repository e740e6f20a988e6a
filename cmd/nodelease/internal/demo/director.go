package demo

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// director starts and signals all processes, from one goroutine.
type director struct {
	Options
	board  *Board
	server *server
	down   bool   // DynamoDB was killed and is not up again yet
	data   string // the file in which the DynamoDB keeps its tables; empty without an outage

	slots   []*slot
	started int        // how many tasks have been started; this number is in their names
	exits   chan *slot // the slots whose task has ended, after its pipe was read to the end
	agenda  []entry
}

// entry is something to do later.
type entry struct {
	at time.Time
	do func() error
}

func (d *director) later(after time.Duration, do func() error) {
	e := entry{time.Now().Add(after), do}
	i, _ := slices.BinarySearchFunc(d.agenda, e, func(a, b entry) int { return a.at.Compare(b.at) })
	d.agenda = slices.Insert(d.agenda, i, e)
}

// run starts the fleet and executes the plan, until the duration is over, quit is closed or
// ctx ends.
func (d *director) run(ctx context.Context, quit <-chan struct{}) error {
	d.exits = make(chan *slot)
	for i := range d.Tasks {
		s := &slot{index: i}
		d.slots = append(d.slots, s)
		if err := d.start(s); err != nil {
			return err
		}
	}
	plan := makePlan(d.Options)
	for _, s := range plan {
		d.later(s.at, func() error { return d.do(ctx, s) })
	}
	if !slices.ContainsFunc(plan, func(s step) bool { return s.act == actFreeze }) {
		d.board.Tell("plan", "no task is frozen: a lease of %v is too long for that", d.TTL)
	}
	began, end := time.Now(), time.NewTimer(d.Duration)
	defer end.Stop()
	for {
		wait := time.Hour
		if len(d.agenda) > 0 {
			wait = time.Until(d.agenda[0].at)
		}
		next := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-quit:
			return nil
		case <-end.C:
			// After an outage, the demo goes on until all tasks have resumed.
			if !d.Outage || time.Since(began) > d.Duration+d.comeBack() || !d.board.anySuspended() {
				return nil
			}
			end.Reset(100 * time.Millisecond)
		case err := <-d.server.ended:
			d.down = true
			return fmt.Errorf("the demo's DynamoDB ended by itself: %w", err)
		case s := <-d.exits:
			d.ended(s)
		case <-next.C:
			if len(d.agenda) > 0 {
				do := d.agenda[0].do
				d.agenda = d.agenda[1:]
				if err := do(); err != nil {
					return err
				}
			}
		}
		next.Stop()
	}
}

// do does one step of the plan.
func (d *director) do(ctx context.Context, s step) error {
	if s.act == actOutage {
		d.outageFor(ctx, s.by)
		return nil
	}
	t := d.pick(s.slot)
	if t == nil {
		return nil // no task holds a node ID
	}
	node := d.board.nodeOf(t.name)
	switch s.act {
	case actKill:
		t.killed = true
		t.kill()
		d.board.acted(t.name, taskDead, func(sum *Summary) { sum.Kills++ },
			"kill -9", "%s, with %s, which rests until its lease is over", t.name, node)
	case actStop:
		t.stopping = true
		t.terminate()
		d.board.acted(t.name, "", nil, "SIGTERM", "%s, with %s, which it releases", t.name, node)
	case actClock:
		way := "ahead"
		if s.by < 0 {
			way = "back"
		}
		if t.tell(order{ClockStep: s.by}) != nil {
			break // the task is dead, and its end will be reported
		}
		d.board.moved(t.name, s.by, "%s, with %s: its wall clock steps %v %s", t.name, node, s.by.Abs(), way)
		d.later(s.lasts, func() error {
			if !t.killed && !t.stopping && t.tell(order{ClockStep: -s.by}) == nil {
				d.board.moved(t.name, -s.by, "%s: its wall clock is set right", t.name)
			}
			return nil
		})
	case actFreeze:
		t.frozen = true
		t.freeze()
		d.board.acted(t.name, taskFrozen, func(sum *Summary) { sum.Freezes++ },
			"SIGSTOP", "%s, with %s, for %v: longer than "+d.leaseOf(), t.name, node, s.by.Round(100*time.Millisecond))
		d.later(s.lasts, func() error {
			d.board.acted(t.name, taskSuspended, nil, "SIGCONT", "%s, which does not know that it was frozen", t.name)
			t.frozen = false
			t.thaw()
			return nil
		})
	}
	return nil
}

// leaseOf describes the lease that a freeze or an outage outlasts.
func (o Options) leaseOf() string {
	if o.Outage {
		return "a lease that has not grown"
	}
	return "its lease"
}

// outageFor kills the DynamoDB process, and starts it again after a while, on the same port
// and with the same data.
func (d *director) outageFor(ctx context.Context, by time.Duration) {
	port := d.server.port()
	d.server.kill()
	<-d.server.ended
	d.down = true
	d.board.away("kill -9 of DynamoDB, for %v: longer than %s", by.Round(100*time.Millisecond), d.leaseOf())
	d.later(by, func() error {
		s, err := startServer(ctx, port, d.Table, d.data)
		if err != nil {
			return err
		}
		d.server, d.down = s, false
		d.board.back("DynamoDB, with its data: the fleet can continue")
		return nil
	})
}

// end asks all tasks to end, kills those that have not ended after grace, and returns when
// all are gone.
func (d *director) end(grace time.Duration) {
	d.board.Tell("end", "every task releases its node ID")
	left := 0
	for _, s := range d.slots {
		if t := s.task; t != nil {
			left++
			t.stopping = true
			t.thaw() // a frozen task cannot receive SIGTERM
			t.terminate()
		}
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	for left > 0 {
		select {
		case s := <-d.exits:
			d.gone(s)
			left--
		case <-late.C:
			for _, s := range d.slots {
				if s.task != nil {
					s.task.kill()
				}
			}
		}
	}
}
