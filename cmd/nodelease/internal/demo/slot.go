package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// slot is a place in the fleet. When its task ends, another task is started in it.
type slot struct {
	index int
	task  *task // nil while the place is empty
	// failure is why the slot's last task ended if it never had a node ID. It is used to
	// report the same reason only once.
	failure string
}

// task is one process of the fleet.
type task struct {
	*process
	name                     string
	killed, frozen, stopping bool
	err                      error // why it ended
}

// start puts a new task into an empty slot.
func (d *director) start(s *slot) error {
	d.started++
	name := fmt.Sprintf("task-%d", d.started)
	p, err := startProcess(TaskCommand, name)
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	t := &task{process: p, name: name}
	s.task = t
	d.board.started(name, d.member(s.index))
	go func() {
		err := readFrames(p.stdout,
			func(ids []snowflake.ID) { d.board.ids(name, ids) },
			func(e taskEvent) { d.board.event(name, e) })
		if err != nil {
			p.kill() // its output is invalid
		}
		t.err = p.wait()
		d.exits <- s
	}()
	// As the clocks of machines differ, each task's clock is a little wrong from the start.
	rng := rand.New(rand.NewPCG(d.Seed, uint64(d.started))) //nolint:gosec // a seed of random nodeIDs
	off := time.Duration(rng.Int64N(int64(d.skew()))) - d.skew()/2
	// An error means that the task is already dead; its exit has the reason.
	_ = t.tell(taskSpec{
		Name: name, Endpoint: d.server.endpoint, Table: d.Table, Pool: d.Pool,
		TTL: d.TTL, Guard: d.guard(), ClaimGuard: d.claimGuard(), Wait: d.Wait,
		MaxTTL: d.maxTTL(), Member: d.member(s.index), Reacquire: s.index%2 == 0, ClockOff: off.Truncate(time.Millisecond),
	})
	return nil
}

// pick finds a task for an action: the first one that holds a node ID, beginning with the
// planned slot. It returns nil if no task holds one.
func (d *director) pick(slot int) *task {
	for i := range d.slots {
		t := d.slots[(slot+i)%len(d.slots)].task
		if t != nil && !t.killed && !t.frozen && !t.stopping && d.board.holds(t.name) {
			return t
		}
	}
	return nil
}

// ended reports the end of a slot's task, and schedules the start of the next one.
func (d *director) ended(s *slot) {
	t := s.task
	had := d.gone(s)
	if t.killed || t.stopping {
		s.failure = ""
		d.later(restart, func() error { return d.start(s) })
		return
	}
	why := "it ended by itself"
	if t.err != nil {
		why = brief(t.err.Error(), d.Pool)
	}
	after := time.Second
	if had {
		after, s.failure = restart, ""
	}
	if kind := fmt.Sprint(t.exitCode()); had || s.failure != kind {
		s.failure = kind
		d.board.Tell("ended", "%s exited with code %d: %s", t.name, t.exitCode(), why)
	}
	d.later(after, func() error { return d.start(s) })
}

// gone empties the slot of a task that has ended, and reports whether it ever had
// a node ID.
func (d *director) gone(s *slot) (had bool) {
	name := s.task.name
	s.task = nil
	return d.board.gone(name)
}
