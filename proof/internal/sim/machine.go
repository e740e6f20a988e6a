package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
)

// machine runs processes, one after the other. It has clocks and a connection to the
// database, and can be paused.
type machine struct {
	*World
	host   string
	number int
	*clock

	mu       sync.Mutex
	r        *rand.Rand
	resume   chan struct{} // closed when the present pause ends; nil while there is none
	begun    chan struct{} // closed when the pause that is due begins; nil if none is due
	place    string        // where the pause that is due begins
	ill      int           // how many of its own troubles the machine has now
	since    time.Time     // when a trouble last began or ended
	right    time.Time     // when the wall clock's last glitch ended; in the future while it is an hour ahead
	wrong    [2]time.Time  // for the last glitch: the value of right before the glitch, and when the glitch began
	brief    chan struct{} // closed when a write is sent during a brief glitch; nil if there is none
	wasBrief bool          // the last glitch was brief
}

func (w *World) newMachine() *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines++
	m := &machine{World: w, number: w.machines, host: fmt.Sprintf("m%d", w.machines), r: rand.New(rand.NewPCG(w.Plan.Seed, uint64(w.machines)<<8|2))}
	m.clock, m.since = newClock(m.r, w.Plan), time.Now()
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

// troubles are the faults that affect a single machine, each with the part that the world
// must have.
var troubles = []struct {
	part string
	have func(m *machine, ctx context.Context)
}{
	{"steps", (*machine).step},
	{"glitch", (*machine).glitch},
	{"weather", (*machine).weather},
	{"pauses", (*machine).freeze},
	{"pauses", (*machine).freeze},
}

// live causes the machine's troubles until ctx ends.
func (m *machine) live(ctx context.Context) {
	for sleep(ctx, m.upTo(4*time.Minute)) == nil {
		if one := troubles[m.intN(len(troubles))]; m.Plan.has(one.part) {
			m.ails(1)
			one.have(m, ctx)
			m.ails(-1)
		}
	}
}

// step steps the wall clock.
func (m *machine) step(context.Context) {
	m.mu.Lock()
	offset := m.Plan.clockError(m.r)
	m.mu.Unlock()
	m.clock.set(offset)
	m.count(func(c *Counts) { c.ClockSteps++ })
}

// glitch sets the wall clock an hour ahead for two seconds. Every second glitch is brief: it
// ends once the machine has sent a write, so that the clock is right again before the answer
// arrives.
func (m *machine) glitch(ctx context.Context) {
	m.count(func(c *Counts) { c.Glitches++ })
	m.note(history.Event{Kind: history.Note, Text: m.host + "'s wall clock is an hour ahead"})
	sent := m.turnWrong()
	m.clock.shift(time.Hour)
	during, end := context.WithTimeout(ctx, 2*time.Second)
	defer end()
	select {
	case <-during.Done():
	case <-sent:
	}
	if ctx.Err() != nil && m.Plan.Wild { // the faults have ended, and heal may have set the clock right already
		m.clock.set(0)
	} else {
		m.clock.shift(-time.Hour)
	}
	m.turnRight(time.Now())
	m.note(history.Event{Kind: history.Note, Text: m.host + "'s wall clock is right"})
}

// turnWrong records that the wall clock is now an hour ahead. It returns a channel that is
// closed when a brief glitch ends.
func (m *machine) turnWrong() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wasBrief = !m.wasBrief; m.wasBrief {
		m.brief = make(chan struct{})
	}
	m.wrong = [2]time.Time{m.right, time.Now()}
	m.right = time.Now().Add(time.Hour)
	return m.brief
}

// sends ends a brief glitch if r is a write.
func (m *machine) sends(r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.brief != nil && r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.UpdateItem" {
		close(m.brief)
		m.brief = nil
	}
}

// wentWrong returns since when the wall clock had been right before its last glitch, and
// when that glitch began.
func (m *machine) wentWrong() (right, wrong time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrong[0], m.wrong[1]
}

// turnRight records at what time the wall clock stops being an hour ahead.
func (m *machine) turnRight(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.right, m.brief = at, nil
}

// weather changes the machine's own weather for a while.
func (m *machine) weather(ctx context.Context) {
	m.network.become(m.network.any(m.intN), m.host)
	_ = sleep(ctx, m.upTo(m.Plan.about(m.intN)))
	m.network.clear(m.host)
}

// freeze pauses the processes on the machine.
func (m *machine) freeze(ctx context.Context) {
	m.pauseFor(ctx, m.upTo(m.Plan.about(m.intN)))
}

// ails adds n to the number of the machine's own troubles.
func (m *machine) ails(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ill += n
	m.since = time.Now()
}

// wellSince returns since when the machine has had no trouble of its own. If it has one now,
// wellSince returns the present time.
func (m *machine) wellSince() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ill > 0 {
		return time.Now()
	}
	return m.since
}

// rightSince returns when the wall clock's last glitch ended. While the clock is an hour
// ahead, it returns a time in the future.
func (m *machine) rightSince() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.right
}

// calmFor returns for how long neither the machine nor the network has had any trouble.
func (m *machine) calmFor() time.Duration {
	return min(time.Since(m.wellSince()), m.network.calmFor())
}

// heal ends the machine's own weather, and sets its clock right if clocks are wild.
func (m *machine) heal() {
	m.network.clear(m.host)
	if m.Plan.Wild {
		m.clock.set(0)
	}
}

// The places at which a process can be stopped.
const (
	anywhere = ""
	atClock  = "clock"
	sending  = "before sending"
	hearing  = "before hearing"
	between  = "between calls"
)

// pauseFor stops the processes on the machine for d. The pause begins when a process reaches
// a place that is drawn beforehand, or after a minute if no process reaches it. So it can
// begin in the middle of an action that takes no virtual time.
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

// paused returns a channel that is closed when the present pause ends, or nil if there is no
// pause. The caller is a process at the given place. If a pause is due to begin at this
// place, paused begins it.
func (m *machine) paused(at string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun != nil && m.place == at {
		m.begin()
	}
	return m.resume
}

// pausing reports whether paused would return a channel.
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
