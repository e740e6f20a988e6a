package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// machine is where processes run, one after the other: it has clocks, a way to
// the database, and pauses.
type machine struct {
	*World
	host   string
	number int
	*clock

	mu     sync.Mutex
	r      *rand.Rand
	resume chan struct{} // closed when the present pause ends; nil when there is none
	begun  chan struct{} // closed when the pause that is due begins; nil when none is due
	place  string        // where that one begins
}

func (w *World) newMachine() *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines++
	m := &machine{World: w, number: w.machines, host: fmt.Sprintf("m%d", w.machines), r: rand.New(rand.NewPCG(w.Plan.Seed, uint64(w.machines)<<8|2))}
	m.clock = newClock(m.r, w.Plan)
	return m
}

func (m *machine) intN(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.r.IntN(n)
}

func (m *machine) upTo(d time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.r.Int64N(int64(d) + 1))
}

// live lets the machine have its troubles until ctx ends.
func (m *machine) live(ctx context.Context) {
	for sleep(ctx, m.upTo(4*time.Minute)) == nil {
		switch m.intN(4) {
		case 0:
			m.mu.Lock()
			offset := m.Plan.clockError(m.r)
			m.mu.Unlock()
			m.clock.set(offset)
			m.count(func(c *Counts) { c.ClockSteps++ })
		case 1:
			m.network.become(climate[m.intN(len(climate))], m.host)
			_ = sleep(ctx, m.upTo(4*m.Plan.Lease.TTL))
			m.network.clear(m.host)
		default:
			m.pauseFor(ctx, m.upTo(time.Duration(1+m.intN(8))*m.Plan.Lease.TTL/2))
		}
	}
}

// heal ends all troubles.
func (m *machine) heal() {
	m.network.clear(m.host)
	if m.Plan.Bounded {
		return
	}
	m.clock.set(0)
}

// Where a process can be stopped.
const (
	anywhere = ""
	atClock  = "clock"
	sending  = "before sending"
	hearing  = "before hearing"
	between  = "between calls"
)

// pauseFor stops what runs on the machine, for d. The pause begins when a process
// comes to a place that is chosen before, or after a while: so it can begin inside
// of what takes no time.
func (m *machine) pauseFor(ctx context.Context, d time.Duration) {
	begun := make(chan struct{})
	m.mu.Lock()
	m.place = []string{anywhere, atClock, sending, hearing, between}[m.r.IntN(5)]
	m.begun = begun
	if m.place == anywhere {
		m.begin()
	}
	m.mu.Unlock()
	select {
	case <-begun:
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	m.mu.Lock()
	if m.resume == nil {
		m.begin()
	}
	resume := m.resume
	m.mu.Unlock()
	_ = sleep(ctx, d)
	m.mu.Lock()
	m.resume = nil
	m.mu.Unlock()
	close(resume)
}

// begin begins the pause. The caller holds mu.
func (m *machine) begin() {
	m.resume = make(chan struct{})
	close(m.begun)
	m.begun = nil
}

// paused gives a channel that is closed when the pause ends that a process meets
// at a place; nil when it meets none.
func (m *machine) paused(at string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun != nil && m.place == at {
		m.begin()
	}
	return m.resume
}

// pausing tells whether paused would give something.
func (m *machine) pausing(at string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resume != nil || m.begun != nil && m.place == at
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
